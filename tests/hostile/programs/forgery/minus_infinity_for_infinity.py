# does: Prints infinity of the wrong sign.
# answer: inf
# expect: verdict wrong_answer
print("-inf")
