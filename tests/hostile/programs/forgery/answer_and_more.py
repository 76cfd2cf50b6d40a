# does: Prints the right answer twice and then half of another one.
# stdin: 2 3
# answer: 5
# expect: verdict wrong_answer
print("5\n5\n5")
