"""The notebooks run, and their stored outputs are what they give."""
