# does: Prints a real number too large for a float, and one with thousands of digits.
# answer: 0.5
# expect: verdict wrong_answer
print("1e99999")
