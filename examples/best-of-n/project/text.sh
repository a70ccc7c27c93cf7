# Prints a title as a part of a URL.
slug() {
  printf '%s' "$1" | cat
}

# Prints the first letters of a name.
initials() {
  printf '%s' "$1" | cat
}
