# Prints how many tests pass.
. ./slug.sh
passed=0
expect() { [ "$(slug "$1")" = "$2" ] && passed=$((passed + 1)); }
expect 'hello' 'hello'
expect 'Hello' 'hello'
expect 'two words' 'two-words'
expect 'Many   Spaces' 'many-spaces'
expect 'What?!' 'what'
echo "$passed"
