# Prints a title as a part of a URL.
slug() {
  printf '%s' "$1"
}
