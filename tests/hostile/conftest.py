"""The attacking programs are data here: nothing of theirs may ever be imported."""

collect_ignore = ["programs"]
