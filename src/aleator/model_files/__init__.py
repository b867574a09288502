"""What model files hold, and the checks that every value passes before anything uses it."""
