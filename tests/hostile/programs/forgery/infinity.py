# does: Prints infinity, which lies within any relative tolerance of itself.
# answer: 0.5
# expect: verdict wrong_answer
print("inf")
