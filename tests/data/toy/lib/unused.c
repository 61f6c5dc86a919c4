int toy_unused;
