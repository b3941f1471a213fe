"""What an exercise is. Everything here is frozen data; nothing imports torch, triton or Hypothesis."""
