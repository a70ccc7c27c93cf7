# Prints how many tests pass.
. ./text.sh
passed=0
expect() { [ "$1" = "$2" ] && passed=$((passed + 1)); }
expect "$(slug 'hello')" 'hello'
expect "$(slug 'Hello')" 'hello'
expect "$(slug 'two words')" 'two-words'
expect "$(slug 'Many   Spaces')" 'many-spaces'
expect "$(slug 'What?!')" 'what'
expect "$(initials 'X')" 'X'
expect "$(initials 'Ada Lovelace')" 'AL'
expect "$(initials 'Grace Brewster Hopper')" 'GBH'
echo "$passed"
