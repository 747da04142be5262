"""The commit policies by name."""

from livecap.commit import AlignAtt, AppendOnly, CommitPolicy, LocalAgreement, Rollback

POLICIES: dict[str, CommitPolicy] = {
    "append-only": AppendOnly(),
    "rollback": Rollback(),
    "local-agreement": LocalAgreement(),
    "align-att": AlignAtt(),
}
