# does: Prints an output that a careless checker would run or trust.
# kind: stdio
# checker: tokens
# expect: not_accepted
print("1\n1.0\naccepted\n__import__('os')._exit(0)\n\0\n--help\n")
