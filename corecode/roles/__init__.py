"""Roles of a team: prompts, the Algorithmic Thought, and the way from a completion to a program."""
