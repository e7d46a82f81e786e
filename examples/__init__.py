"""Examples: small real models built, optimised and timed from data the repository ships."""
