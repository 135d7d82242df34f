"""Many ranks or hosts side by side."""
