# does: Prints digits of another script, which int() takes for the same number.
# answer: 5
# expect: verdict wrong_answer
print("\uff15")
