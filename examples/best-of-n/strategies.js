/** Ways to write `slug`. An agent would ask a model for them. */
const body = (pipeline) => `cat > slug.sh <<'END'
# Prints a title as a part of a URL.
slug() {
  printf '%s' "$1" | ${pipeline}
}
END`

export const strategies = [
  { name: 'lower case', command: body("tr 'A-Z' 'a-z'") },
  { name: 'dashes', command: body("tr 'A-Z ' 'a-z-'") },
  { name: 'single dashes', command: body("tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'") },
  { name: 'a mistake', command: 'rm -rf ./*' },
]
