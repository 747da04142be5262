"""What a client is told when something can't be done: one envelope for every refusal.

Source: the error object of OpenAI's API, `{"error": {"message", "type", "param", "code"}}`, whose
fields the official clients give to their exceptions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from starlette.responses import JSONResponse

Kind = Literal["invalid_request_error", "rate_limit_error", "server_error"]
INVALID: Kind = "invalid_request_error"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
NO_RETRY = MappingProxyType({"x-should-retry": "false"})  # the official clients obey this


class ApiError(Exception):
    """A refusal on its way to a client: the status, the fields of the envelope, and headers.

    `param` names the field that is to blame; `code` is for programs, `message` for people.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: Kind = INVALID,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.headers = headers

    def __setattr__(self, name: str, value: object) -> None:
        """An error says one thing only; Python itself may still note where it came from."""
        if name in self.__dict__ and not name.startswith("__"):
            raise AttributeError(f"{name} is set once")
        super().__setattr__(name, value)

    def envelope(self) -> dict[str, object]:
        """The JSON body."""
        payload = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return {"error": payload}


def response(error: ApiError) -> JSONResponse:
    """The error as an HTTP answer."""
    return JSONResponse(error.envelope(), status_code=error.status, headers=dict(error.headers))


# The refusals that several parts of the server give.


def invalid(param: str, message: str, *, code: str = "invalid_value") -> ApiError:
    """400: a field has a value that can't work."""
    return ApiError(400, message, code=code, param=param)


def unsupported(param: str, message: str) -> ApiError:
    """400: a value that OpenAI's API knows, or another server, and this one can't follow."""
    return invalid(param, message, code="unsupported_value")


def missing(param: str) -> ApiError:
    """400: a field that must be there is not."""
    message = f"Missing required parameter: '{param}'."
    return invalid(param, message, code="missing_required_parameter")


def unknown_model(name: str) -> ApiError:
    """404: no model of that name is served."""
    message = f"The model '{name[:100]}' does not exist. GET /v1/models lists those that do."
    return ApiError(404, message, code="model_not_found", param="model")


def busy(retry_after: int) -> ApiError:
    """429: all there is room for is under way; seconds after which to ask again."""
    return ApiError(
        429,
        f"The server is at its limit. Please try again in {retry_after} s.",
        type="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(retry_after)},
    )


def loading(retry_after: int) -> ApiError:
    """503: the model is not ready yet; seconds after which to ask again."""
    return ApiError(
        503,
        f"The model is still being loaded. Please try again in {retry_after} s.",
        type="server_error",
        code="model_loading",
        headers={"Retry-After": str(retry_after)},
    )


def fault() -> ApiError:
    """500: ours. The cause is in the server's log, not in the answer; asking again won't help."""
    message = "The server failed at this request. Its log says more."
    return ApiError(500, message, type="server_error", code="server_error", headers=NO_RETRY)
