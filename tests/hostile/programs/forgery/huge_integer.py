# does: Prints an integer with more digits than Python converts by default.
# answer: 5
# expect: verdict wrong_answer
print("5" * 100000)
