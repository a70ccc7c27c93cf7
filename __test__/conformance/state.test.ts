import { conforms, type Step } from '../helpers/conformance.js'

/** A kind of state: commands that make it, one that shows it, and what that prints and has for a result. */
type State = [set: string | string[], see: string, out?: Step['out'], result?: Pick<Step, 'err' | 'code'>]

const states: Record<string, State> = {
  'a variable with every kind of character': [
    `x=$'a b\\n\\'"$\`\\\\ü\\x01\\t!*?[]{}~#'`,
    'printf "<%s>" "$x"',
    '<a b\n\'"$`\\ü\x01\t!*?[]{}~#>',
  ],
  'a variable with bytes that are no text': [
    `x=$'\\xff\\xfe\\x80'`,
    'printf %s "$x" | od -An -tx1',
    ' ff fe 80\n',
  ],
  'a variable that ends in line ends': [`x=$'a\\n\\n'`, 'printf "<%s>" "$x"', '<a\n\n>'],
  'an empty variable and an unset one': ["x=''; y=1; unset y", 'echo "${x-unset} ${y-unset}"', ' unset\n'],
  'a large variable': ['x=$(head -c 300000 /dev/zero | tr "\\0" x)', 'echo ${#x}', '300000\n'],
  'an exported variable': ["export x='a b'", 'bash -c \'echo "$x"\'', 'a b\n'],
  'a variable exported without a value': [
    'export x',
    'declare -p x; env | grep -c ^x=',
    'declare -x x\n0\n',
    { code: 1 },
  ],
  'a variable that is exported no more': ['export x=1; export -n x', 'declare -p x', 'declare -- x="1"\n'],
  'an integer': ['declare -i x=5', 'x+=2*3; echo $x', '11\n'],
  'a declared integer without a value': ['declare -i x', 'declare -p x; x=2+3; echo $x', 'declare -i x\n5\n'],
  'variables that change case': [
    'declare -l low=ABC; declare -u up=abc; declare -c cap=aBC',
    'low+=D; up+=d; echo $low $up; declare -p cap',
    'abcd ABCD\ndeclare -c cap="Abc"\n',
  ],
  'a readonly variable': [
    'readonly x=1',
    '(x=2) 2>/dev/null; echo $?; declare -p x',
    '1\ndeclare -r x="1"\n',
  ],
  'a readonly exported integer': ['declare -rix x=7', 'declare -p x', 'declare -irx x="7"\n'],
  'a trace attribute': ['declare -t x=1', 'declare -p x', 'declare -t x="1"\n'],
  'a sparse array': [
    `x=([2]=two [5]='f i v e' [7]='' [9]=$'a\\nb')`,
    'declare -p x; echo ${#x[@]}',
    'declare -a x=([2]="two" [5]="f i v e" [7]="" [9]=$\'a\\nb\')\n4\n',
  ],
  'an empty array and a declared one': [
    'x=(); declare -a y',
    'declare -p x y',
    'declare -a x=()\ndeclare -a y\n',
  ],
  'a readonly array of integers': [
    'declare -air x=(1 2+3)',
    'declare -p x',
    'declare -air x=([0]="1" [1]="5")\n',
  ],
  'an array of a thousand items': ['x=({1..1000})', 'echo ${#x[@]} ${x[999]}', '1000 1000\n'],
  'an associative array': [
    `declare -A x=(['a b']='c"d' [']']="'" ['$k']=1 [@]=at)`,
    'echo "${x[a b]}" "${x["]"]}" "${#x[@]}"; k="\\$k"; echo "${x[$k]}"',
    'c"d \' 4\n1\n',
  ],
  'an empty associative array': ['declare -A x; x[k]=1; unset "x[k]"', 'x[a.b]=2; echo "${!x[@]}"', 'a.b\n'],
  'a readonly exported associative array': [
    'declare -Arx x=([k]=v)',
    'declare -p x',
    'declare -Arx x=([k]="v" )\n',
  ],
  'a nameref': ['t=1; declare -n ref=t', 'ref=2; echo $t; declare -p ref', '2\ndeclare -n ref="t"\n'],
  'a nameref to an item, and one to nothing yet': [
    'a=(x y); declare -n item=a[1] later=unborn',
    'item=z; later=1; echo ${a[1]} $unborn',
    'z 1\n',
  ],
  'a chain of namerefs': ['declare -n one=two two=three; three=3', 'echo $one; one=4; echo $three', '3\n4\n'],
  'a variable made global in a function': [
    'f() { declare -g x=1; local y=2; }; f',
    'echo "$x ${y-unset}"',
    '1 unset\n',
  ],
  'a function': ['f() { local a=$1; shift; echo "$a|$*"; }', 'f 1 2 3', '1|2 3\n'],
  'a function with a here-document': [
    "f() { cat <<A; cat <<-'B'\n$1 }\nA\n\t$1 '\"\n\tB\n}",
    'f x',
    'x }\n$1 \'"\n',
  ],
  'functions with names that are no variable names': [
    'a-b() { echo 1; }; function a.b { echo 2; }; ünï() { echo 3; }; function +x { echo 4; }',
    'a-b; a.b; ünï; +x',
    '1\n2\n3\n4\n',
  ],
  'a function that is a subshell, has redirections, and one that is a loop': [
    'f() (exit 3); g() { echo g; } >&2; function h for i in 1 2; do echo $i; done',
    'f; echo $?; g; h',
    '3\n1\n2\n',
    { err: 'g\n' },
  ],
  'a function with case, select, arithmetic and regular expressions': [
    'f() { case $1 in a|b) echo ab;;& b) echo b;& *) echo any;; esac; (( 1 < 2 )) && [[ xay =~ x(.)y ]] && echo ${BASH_REMATCH[1]}; }',
    'f b',
    'ab\nb\nany\na\n',
  ],
  'an exported function': ['f() { echo "f $1"; }; export -f f', "bash -c 'f x'", 'f x\n'],
  'a readonly function': [
    'f() { echo 1; }; readonly -f f',
    'f() { echo 2; }; f',
    '1\n',
    { err: 'bash: line 1: f: readonly function\n' },
  ],
  'a function that was unset': ['f() { :; }; unset -f f', 'declare -F', ''],
  'an alias': [
    `shopt -s expand_aliases; alias ll='echo "it'\\''s" $x' two='one' one='echo 1'`,
    'x=5; ll\ntwo',
    "it's 5\n1\n",
  ],
  'an alias that nothing expands': [
    'alias ll="ls -l"',
    'alias ll; type ll',
    "alias ll='ls -l'\n",
    { err: 'bash: line 1: type: ll: not found\n', code: 1 },
  ],
  options: [
    'set -f +B -C -a -o pipefail',
    'echo * {a,b}; false | true; echo $?; y=1; env | grep ^y; echo $-',
    /^\* \{a,b\}\n1\ny=1\na.*f.*C.*\n$/,
  ],
  'shell options': [
    'shopt -s extglob nullglob dotglob globstar nocasematch lastpipe; shopt -u sourcepath',
    'shopt extglob nullglob dotglob globstar nocasematch lastpipe sourcepath | cut -f2 | tr "\\n" " "',
    'on on on on on on off ',
  ],
  'extended patterns in a function': [
    ['shopt -s extglob', 'f() { [[ $1 == +(a|b) ]] && echo ${1//@(a)/x}; }; shopt -u extglob'],
    'f aba; shopt extglob',
    'aba\nextglob        \toff\n',
    { code: 1 },
  ],
  traps: [
    `trap 'echo "it'\\''s $?"' USR1; trap '' PIPE; trap 'echo two' USR2`,
    'kill -USR1 $$; kill -USR2 $$; trap -p PIPE; bash -c "kill -PIPE \\$\\$; echo alive"',
    "it's 0\ntwo\ntrap -- '' SIGPIPE\nalive\n",
  ],
  'a DEBUG trap': [
    "trap 'echo D $BASH_COMMAND' DEBUG",
    'echo a; (( 1 )); echo b',
    'D echo a\na\nD (( 1 ))\nD echo b\nb\n',
  ],
  'an ERR trap': ["trap 'echo E $?' ERR", 'true; (exit 3); false || true; echo a', 'E 3\na\n'],
  'the umask': ['umask 027', 'umask; umask -S; touch file; stat -c %a file', '0027\nu=rwx,g=rx,o=\n640\n'],
  'the directory': [
    'mkdir -p "a b/c"; cd "a b/c"',
    'pwd; pwd -P; echo $PWD $OLDPWD',
    '<dir>/a b/c\n<dir>/a b/c\n<dir>/a b/c <dir>\n',
  ],
  'the directory by the name of a link': [
    'mkdir real; ln -s real link; cd link',
    'pwd; pwd -P; cd ..; pwd',
    '<dir>/link\n<dir>/real\n<dir>\n',
  ],
  'the directory with a name that is no text': [
    `mkdir $'\\xff\\n'; cd $'\\xff\\n'`,
    'pwd | tail -c 3 | od -An -tx1; cd ..; pwd',
    ' ff 0a 0a\n<dir>\n',
  ],
  'the directory stack': [
    'mkdir a b "c d"; pushd a >/dev/null; pushd ../b >/dev/null; pushd "../c d" >/dev/null',
    'dirs -p; popd >/dev/null; pwd; popd -n >/dev/null; popd >/dev/null; pwd',
    '<dir>/c d\n<dir>/b\n<dir>/a\n<dir>\n<dir>/b\n<dir>\n',
  ],
  'the directory before': ['cd /usr; cd /etc', 'cd -; cd -', '/usr\n/etc\n'],
  'positional parameters': [
    `set -- a 'b c' '' '$x' $'l\\n'`,
    'echo $#; printf "<%s>" "$@"; shift 2; echo $#',
    '5\n<a><b c><><$x><l\n>3\n',
  ],
  'no positional parameters': ['set -- a; set --', 'echo $#', '0\n'],
  'one empty positional parameter': ["set -- ''", 'echo $#', '1\n'],
  'the position of getopts': [
    'set -- -a -b x -c; getopts ab: o; getopts ab: o',
    'echo $o $OPTARG $OPTIND',
    'b x 4\n',
  ],
  'remembered programs': [
    'hash -p /bin/echo remembered',
    'remembered yes; hash -t remembered',
    'yes\n/bin/echo\n',
  ],
  completions: [
    "complete -W 'one two' -o nospace cmd; complete -F f other; complete -D -W d",
    'complete -p cmd other; complete -p -D',
    "complete -o nospace -W 'one two' cmd\ncomplete -F f other\ncomplete -W 'd' -D\n",
  ],
  'disabled builtins': ['enable -n test', 'type -t test; enable test; type -t test', 'file\nbuiltin\n'],
  'open files': [
    'exec 5>file; exec {fd}<>other; echo a >&5',
    'echo b >&5; echo c >&$fd; cat file other',
    'a\nb\nc\n',
  ],
  'the position in an open file': [
    'printf "1\\n2\\n3\\n" >file; exec 7<file; read -r x <&7',
    'read -r y <&7; echo $x $y',
    '1 2\n',
  ],
  limits: ['ulimit -Sn 123; ulimit -Sc 0', 'ulimit -Sn; bash -c "ulimit -Sn"; ulimit -Sc', '123\n123\n0\n'],
  'a changed IFS': ['IFS=:', 'x=a:b; printf "<%s>" $x "${IFS}"', '<a><b><:>'],
  'unset variables of the environment': [
    'unset HOME LANG IFS PS4 OPTERR OLDPWD TERM',
    'echo "${HOME-unset} ${LANG-unset} ${IFS-unset} ${PS4-unset} ${OPTERR-unset}"',
    'unset unset unset unset unset\n',
  ],
  SECONDS: ['SECONDS=1000', '(( SECONDS >= 1000 && SECONDS < 1100 )) && echo on', 'on\n'],
  'the name of the shell': ['BASH_ARGV0=me', 'echo $0', 'me\n'],
  'jobs of the background': ['sleep 60 & p=$!', 'kill -0 $p && echo alive', 'alive\n'],
}

/** How the shell goes on after the state was made. */
const ways: Record<string, Step[]> = {
  'the next command': [],
  exit: [{ run: 'exit 3', code: 3 }],
  'exit in a function, twice': [
    { run: 'die() { exit 3; }; die; ', code: 3 },
    { run: 'die', code: 3 },
    { run: 'unset -f die' },
  ],
  'kill -9': [{ run: 'kill -9 $$', code: 137, restarted: true }],
  exec: [{ run: 'exec true', restarted: true }],
}

/** A state, then a way to go on, then a look. Traps and options of the state may add output to the way: not looked at. */
for (const [way, steps] of Object.entries(ways))
  conforms(
    `state over ${way}`,
    Object.fromEntries(
      Object.entries(states).map(([name, [set, see, out, result]]) => [
        name,
        [
          ...[set].flat().map((run) => ({ run })),
          ...steps.map((step) => (/DEBUG|ERR/.test(name) ? { ...step, out: /^/ } : step)),
          { run: see, ...(out !== undefined && { out }), ...result },
        ],
      ]),
    ),
  )
