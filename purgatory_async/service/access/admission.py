"""A request that was let in by its token, and may lose that right while it is under way.

Its rights are checked again when it makes a change, and before it is answered with what it read.
"""

from typing import Final, Protocol

from purgatory_async.durable.documents import problems
from purgatory_async.durable.grants import Grant, Permission
from purgatory_async.service.contract import http_problems


class Releasable(Protocol):
    """What keeps a request waiting: its `HeldRequest`, a stream, or an entry that is not yet sent to the log."""

    def release(self) -> None:
        """End early: the request looks at its admission then."""


class Admission:
    """What a request was allowed, and by which scope of its token.

    Args:
        grant: The grant of its token.
        right: The scope that let it in; None where any did.

    Attributes:
        grant: What its token may do now; the last that allowed the request, once its rights are lost.
        rights: The scopes that it needs.
        names: The keys, prefixes and queues that it uses.
        held: What keeps the request waiting, to end it once the request may not go on.
        refusal: Why it may not go on; None while it may.
    """

    __slots__ = ("grant", "held", "names", "refusal", "rights")

    def __init__(self, grant: Grant, right: Permission | None) -> None:
        self.grant = grant
        self.rights = frozenset[Permission]() if right is None else frozenset({right})
        self.names: tuple[str, ...] = ()
        self.refusal: problems.Problem | None = None
        self.held: Final[list[Releasable]] = []

    def __repr__(self) -> str:
        return f"<Admission owner={self.grant.owner} rights={sorted(self.rights)} refused={self.refusal is not None}>"

    def use(self, *names: str) -> None:
        """Note names that the request uses.

        Raises:
            Problem: ``forbidden``: one does not begin with a prefix of the token.
        """
        for name in names:
            if not self.grant.covers(name):
                raise http_problems.outside(name, self.grant.prefixes)
        self.names += names

    def need(self, right: Permission) -> None:
        """Note a further scope that the request needs.

        Raises:
            Problem: ``forbidden``: the token lacks it.
        """
        if right not in self.grant.scopes:
            raise http_problems.forbidden(right)
        self.rights |= {right}

    def look_again(self, grant: Grant | None) -> None:
        """Refuse the request if what its token may do now does not include it; ends what keeps it waiting. O(names).

        Args:
            grant: The token's present grant; None if the token is gone.
        """
        self.refusal = self._refusal_by(grant)
        if self.refusal is None:
            self.grant = grant or self.grant
        else:
            for held in list(self.held):
                held.release()

    def _refusal_by(self, grant: Grant | None) -> problems.Problem | None:
        if grant is None:
            return http_problems.unauthorized("the token is gone")
        for right in sorted(self.rights - grant.scopes):
            return http_problems.forbidden(right)
        if grant.owner != self.grant.owner:
            return http_problems.other_owner(self.grant.owner, grant.owner)
        for name in self.names:
            if not grant.covers(name):
                return http_problems.outside(name, grant.prefixes)
        return None
