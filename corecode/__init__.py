"""The method of CoRe-Code: a Planner and a Coder that learn together from what programs do when they run."""
