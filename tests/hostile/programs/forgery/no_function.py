# does: Does not define the function.
# kind: call asserts
# expect: verdict runtime_error
print("accepted")
