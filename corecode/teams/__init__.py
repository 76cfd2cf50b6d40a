"""Teams: who works on a problem and how, from the trained chain of roles to teams that live of their prompts alone.

:mod:`corecode.teams.chain` is the team that is trained: every role but the last writes text that the next one reads,
the last one writes the program. :mod:`corecode.teams.prompted` lists the teams from the literature that need no
training; :mod:`corecode.teams.session` plays them.
"""

from __future__ import annotations

from corecode.teams.answer import Answer
from corecode.teams.chain import Player, Protocol, Rollout, Team, Turn, Watcher, extend, finish, rollout

__all__ = ["Answer", "Player", "Protocol", "Rollout", "Team", "Turn", "Watcher", "extend", "finish", "rollout"]
