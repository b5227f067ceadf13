"""What the papers print, and how our numbers are laid beside it."""
