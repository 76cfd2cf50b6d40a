# does: Prints a wrong answer and then codes that hide it on a terminal.
# answer: 5
# expect: verdict wrong_answer
print("4\b5\x1b[2K\r5")
