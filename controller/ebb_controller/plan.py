"""Everything a switch should hold: the mechanisms' entries, in the order P4Runtime needs them."""

from __future__ import annotations

from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4MulticastGroupEntry,
    P4TableEntry,
)

from ebb_controller.mechanism import Entity
from ebb_controller.mechanisms import MECHANISMS, FabricParameters
from ebb_controller.site import Site

INSERT_ORDER = (
    P4ActionProfileMember,
    P4ActionProfileGroup,
    P4MulticastGroupEntry,
    P4CloneSessionEntry,
    P4TableEntry,
)
"""An entity may only name what is there already: members, then groups, then the entries."""


def plan(site: Site[FabricParameters]) -> list[Entity]:
    """The entities of one switch, members before groups before entries."""
    entities = [entity for mechanism in MECHANISMS for entity in mechanism.entries(site)]
    return sorted(entities, key=lambda entity: INSERT_ORDER.index(type(entity)))
