# does: Prints a number with an underscore, which int() takes.
# answer: 50
# expect: verdict wrong_answer
print("5_0")
