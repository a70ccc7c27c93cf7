import { type Case, conforms, type Step } from '../helpers/conformance.js'

/** A kind of state: what makes it, what shows it. `died`: what shows when a death changes it on purpose. */
interface State {
  name: string
  set: string[]
  see: string
  out?: string | RegExp
  err?: string | RegExp
  code?: number
}

const states: State[] = [
  {
    name: 'a variable with every kind of character',
    set: [`x=$'a b\\n\\'"$\`\\\\ü\\x01\\t!*?[]{}~#'`],
    see: 'printf "<%s>" "$x"',
    out: '<a b\n\'"$`\\ü\x01\t!*?[]{}~#>',
  },
  {
    name: 'a variable with bytes that are no text',
    set: [`x=$'\\xff\\xfe\\x80'`],
    see: 'printf %s "$x" | od -An -tx1',
    out: ' ff fe 80\n',
  },
  {
    name: 'a variable that ends in line ends',
    set: [`x=$'a\\n\\n'`],
    see: 'printf "<%s>" "$x"',
    out: '<a\n\n>',
  },
  {
    name: 'an empty variable and an unset one',
    set: ["x=''; y=1; unset y"],
    see: 'echo "${x-unset} ${y-unset}"',
    out: ' unset\n',
  },
  {
    name: 'a large variable',
    set: ['x=$(head -c 300000 /dev/zero | tr "\\0" x)'],
    see: 'echo ${#x}',
    out: '300000\n',
  },
  { name: 'an exported variable', set: ["export x='a b'"], see: 'bash -c \'echo "$x"\'', out: 'a b\n' },
  {
    name: 'a variable exported without a value',
    set: ['export x'],
    see: 'declare -p x; env | grep -c ^x=',
    out: 'declare -x x\n0\n',
    code: 1,
  },
  {
    name: 'a variable that is exported no more',
    set: ['export x=1; export -n x'],
    see: 'declare -p x',
    out: 'declare -- x="1"\n',
  },
  { name: 'an integer', set: ['declare -i x=5'], see: 'x+=2*3; echo $x', out: '11\n' },
  {
    name: 'a declared integer without a value',
    set: ['declare -i x'],
    see: 'declare -p x; x=2+3; echo $x',
    out: 'declare -i x\n5\n',
  },
  {
    name: 'variables that change case',
    set: ['declare -l low=ABC; declare -u up=abc; declare -c cap=aBC'],
    see: 'low+=D; up+=d; echo $low $up; declare -p cap',
    out: 'abcd ABCD\ndeclare -c cap="Abc"\n',
  },
  {
    name: 'a readonly variable',
    set: ['readonly x=1'],
    see: '(x=2) 2>/dev/null; echo $?; declare -p x',
    out: '1\ndeclare -r x="1"\n',
  },
  {
    name: 'a readonly exported integer',
    set: ['declare -rix x=7'],
    see: 'declare -p x',
    out: 'declare -irx x="7"\n',
  },
  { name: 'a trace attribute', set: ['declare -t x=1'], see: 'declare -p x', out: 'declare -t x="1"\n' },
  {
    name: 'a sparse array',
    set: [`x=([2]=two [5]='f i v e' [7]='' [9]=$'a\\nb')`],
    see: 'declare -p x; echo ${#x[@]}',
    out: 'declare -a x=([2]="two" [5]="f i v e" [7]="" [9]=$\'a\\nb\')\n4\n',
  },
  {
    name: 'an empty array and a declared one',
    set: ['x=(); declare -a y'],
    see: 'declare -p x y',
    out: 'declare -a x=()\ndeclare -a y\n',
  },
  {
    name: 'a readonly array of integers',
    set: ['declare -air x=(1 2+3)'],
    see: 'declare -p x',
    out: 'declare -air x=([0]="1" [1]="5")\n',
  },
  {
    name: 'an array of a thousand items',
    set: ['x=({1..1000})'],
    see: 'echo ${#x[@]} ${x[999]}',
    out: '1000 1000\n',
  },
  {
    name: 'an associative array',
    set: [`declare -A x=(['a b']='c"d' [']']="'" ['$k']=1 [@]=at)`],
    see: 'echo "${x[a b]}" "${x["]"]}" "${#x[@]}"; k="\\$k"; echo "${x[$k]}"',
    out: 'c"d \' 4\n1\n',
  },
  {
    name: 'an empty associative array',
    set: ['declare -A x; x[k]=1; unset "x[k]"'],
    see: 'x[a.b]=2; echo "${!x[@]}"',
    out: 'a.b\n',
  },
  {
    name: 'a readonly exported associative array',
    set: ['declare -Arx x=([k]=v)'],
    see: 'declare -p x',
    out: 'declare -Arx x=([k]="v" )\n',
  },
  {
    name: 'a nameref',
    set: ['t=1; declare -n ref=t'],
    see: 'ref=2; echo $t; declare -p ref',
    out: '2\ndeclare -n ref="t"\n',
  },
  {
    name: 'a nameref to an item, and one to nothing yet',
    set: ['a=(x y); declare -n item=a[1] later=unborn'],
    see: 'item=z; later=1; echo ${a[1]} $unborn',
    out: 'z 1\n',
  },
  {
    name: 'a chain of namerefs',
    set: ['declare -n one=two two=three; three=3'],
    see: 'echo $one; one=4; echo $three',
    out: '3\n4\n',
  },
  {
    name: 'a variable made global in a function',
    set: ['f() { declare -g x=1; local y=2; }; f'],
    see: 'echo "$x ${y-unset}"',
    out: '1 unset\n',
  },
  { name: 'a function', set: ['f() { local a=$1; shift; echo "$a|$*"; }'], see: 'f 1 2 3', out: '1|2 3\n' },
  {
    name: 'a function with a here-document',
    set: ["f() { cat <<A; cat <<-'B'\n$1 }\nA\n\t$1 '\"\n\tB\n}"],
    see: 'f x',
    out: 'x }\n$1 \'"\n',
  },
  {
    name: 'functions with names that are no variable names',
    set: ['a-b() { echo 1; }; function a.b { echo 2; }; ünï() { echo 3; }; function +x { echo 4; }'],
    see: 'a-b; a.b; ünï; +x',
    out: '1\n2\n3\n4\n',
  },
  {
    name: 'a function that is a subshell, has redirections, and one that is a loop',
    set: ['f() (exit 3); g() { echo g; } >&2; function h for i in 1 2; do echo $i; done'],
    see: 'f; echo $?; g; h',
    out: '3\n1\n2\n',
    err: 'g\n',
  },
  {
    name: 'a function with case, select, arithmetic and regular expressions',
    set: [
      'f() { case $1 in a|b) echo ab;;& b) echo b;& *) echo any;; esac; (( 1 < 2 )) && [[ xay =~ x(.)y ]] && echo ${BASH_REMATCH[1]}; }',
    ],
    see: 'f b',
    out: 'ab\nb\nany\na\n',
  },
  {
    name: 'an exported function',
    set: ['f() { echo "f $1"; }; export -f f'],
    see: "bash -c 'f x'",
    out: 'f x\n',
  },
  {
    name: 'a readonly function',
    set: ['f() { echo 1; }; readonly -f f'],
    see: 'f() { echo 2; }; f',
    out: '1\n',
    err: 'bash: line 1: f: readonly function\n',
  },
  { name: 'a function that was unset', set: ['f() { :; }; unset -f f'], see: 'declare -F', out: '' },
  {
    name: 'an alias',
    set: [`shopt -s expand_aliases; alias ll='echo "it'\\''s" $x' two='one' one='echo 1'`],
    see: 'x=5; ll\ntwo',
    out: "it's 5\n1\n",
  },
  {
    name: 'an alias that nothing expands',
    set: ['alias ll="ls -l"'],
    see: 'alias ll; type ll',
    out: "alias ll='ls -l'\n",
    err: 'bash: line 1: type: ll: not found\n',
    code: 1,
  },
  {
    name: 'options',
    set: ['set -f +B -C -a -o pipefail'],
    see: 'echo * {a,b}; false | true; echo $?; y=1; env | grep ^y; echo $-',
    out: /^\* \{a,b\}\n1\ny=1\na.*f.*C.*\n$/,
  },
  {
    name: 'shell options',
    set: ['shopt -s extglob nullglob dotglob globstar nocasematch lastpipe; shopt -u sourcepath'],
    see: 'shopt extglob nullglob dotglob globstar nocasematch lastpipe sourcepath | cut -f2 | tr "\\n" " "',
    out: 'on on on on on on off ',
  },
  {
    name: 'extended patterns in a function',
    set: ['shopt -s extglob', 'f() { [[ $1 == +(a|b) ]] && echo ${1//@(a)/x}; }; shopt -u extglob'],
    see: 'f aba; shopt extglob',
    out: 'aba\nextglob        \toff\n',
    code: 1,
  },
  {
    name: 'traps',
    set: [`trap 'echo "it'\\''s $?"' USR1; trap '' PIPE; trap 'echo two' USR2`],
    see: 'kill -USR1 $$; kill -USR2 $$; trap -p PIPE; bash -c "kill -PIPE \\$\\$; echo alive"',
    out: "it's 0\ntwo\ntrap -- '' SIGPIPE\nalive\n",
  },
  {
    name: 'a DEBUG trap',
    set: ["trap 'echo D $BASH_COMMAND' DEBUG"],
    see: 'echo a; (( 1 )); echo b',
    out: 'D echo a\na\nD (( 1 ))\nD echo b\nb\n',
  },
  {
    name: 'an ERR trap',
    set: ["trap 'echo E $?' ERR"],
    see: 'true; (exit 3); false || true; echo a',
    out: 'E 3\na\n',
  },
  {
    name: 'the umask',
    set: ['umask 027'],
    see: 'umask; umask -S; touch file; stat -c %a file',
    out: '0027\nu=rwx,g=rx,o=\n640\n',
  },
  {
    name: 'the directory',
    set: ['mkdir -p "a b/c"; cd "a b/c"'],
    see: 'pwd; pwd -P; echo $PWD $OLDPWD',
    out: '<dir>/a b/c\n<dir>/a b/c\n<dir>/a b/c <dir>\n',
  },
  {
    name: 'the directory by the name of a link',
    set: ['mkdir real; ln -s real link; cd link'],
    see: 'pwd; pwd -P; cd ..; pwd',
    out: '<dir>/link\n<dir>/real\n<dir>\n',
  },
  {
    name: 'the directory with a name that is no text',
    set: [`mkdir $'\\xff\\n'; cd $'\\xff\\n'`],
    see: 'pwd | tail -c 3 | od -An -tx1; cd ..; pwd',
    out: ' ff 0a 0a\n<dir>\n',
  },
  {
    name: 'the directory stack',
    set: ['mkdir a b "c d"; pushd a >/dev/null; pushd ../b >/dev/null; pushd "../c d" >/dev/null'],
    see: 'dirs -p; popd >/dev/null; pwd; popd -n >/dev/null; popd >/dev/null; pwd',
    out: '<dir>/c d\n<dir>/b\n<dir>/a\n<dir>\n<dir>/b\n<dir>\n',
  },
  { name: 'the directory before', set: ['cd /usr; cd /etc'], see: 'cd -; cd -', out: '/usr\n/etc\n' },
  {
    name: 'positional parameters',
    set: [`set -- a 'b c' '' '$x' $'l\\n'`],
    see: 'echo $#; printf "<%s>" "$@"; shift 2; echo $#',
    out: '5\n<a><b c><><$x><l\n>3\n',
  },
  { name: 'no positional parameters', set: ['set -- a; set --'], see: 'echo $#', out: '0\n' },
  { name: 'one empty positional parameter', set: ["set -- ''"], see: 'echo $#', out: '1\n' },
  {
    name: 'the position of getopts',
    set: ['set -- -a -b x -c; getopts ab: o; getopts ab: o'],
    see: 'echo $o $OPTARG $OPTIND',
    out: 'b x 4\n',
  },
  {
    name: 'remembered programs',
    set: ['hash -p /bin/echo remembered'],
    see: 'remembered yes; hash -t remembered',
    out: 'yes\n/bin/echo\n',
  },
  {
    name: 'completions',
    set: ["complete -W 'one two' -o nospace cmd; complete -F f other; complete -D -W d"],
    see: 'complete -p cmd other; complete -p -D',
    out: "complete -o nospace -W 'one two' cmd\ncomplete -F f other\ncomplete -W 'd' -D\n",
  },
  {
    name: 'disabled builtins',
    set: ['enable -n test'],
    see: 'type -t test; enable test; type -t test',
    out: 'file\nbuiltin\n',
  },
  {
    name: 'open files',
    set: ['exec 5>file; exec {fd}<>other; echo a >&5'],
    see: 'echo b >&5; echo c >&$fd; cat file other',
    out: 'a\nb\nc\n',
  },
  {
    name: 'the position in an open file',
    set: ['printf "1\\n2\\n3\\n" >file; exec 7<file; read -r x <&7'],
    see: 'read -r y <&7; echo $x $y',
    out: '1 2\n',
  },
  {
    name: 'limits',
    set: ['ulimit -Sn 123; ulimit -Sc 0'],
    see: 'ulimit -Sn; bash -c "ulimit -Sn"; ulimit -Sc',
    out: '123\n123\n0\n',
  },
  { name: 'a changed IFS', set: ['IFS=:'], see: 'x=a:b; printf "<%s>" $x "${IFS}"', out: '<a><b><:>' },
  {
    name: 'unset variables of the environment',
    set: ['unset HOME LANG IFS PS4 OPTERR OLDPWD TERM'],
    see: 'echo "${HOME-unset} ${LANG-unset} ${IFS-unset} ${PS4-unset} ${OPTERR-unset}"',
    out: 'unset unset unset unset unset\n',
  },
  {
    name: 'SECONDS',
    set: ['SECONDS=1000'],
    see: '(( SECONDS >= 1000 && SECONDS < 1100 )) && echo on',
    out: 'on\n',
  },
  { name: 'the name of the shell', set: ['BASH_ARGV0=me'], see: 'echo $0', out: 'me\n' },
  {
    name: 'jobs of the background',
    set: ['sleep 60 & p=$!'],
    see: 'kill -0 $p && echo alive',
    out: 'alive\n',
  },
]

/** How the shell goes on after the state was made. */
const ways: Array<{ name: string; steps: Step[] }> = [
  { name: 'the next command', steps: [] },
  { name: 'exit', steps: [{ run: 'exit 3', code: 3 }] },
  {
    name: 'exit in a function, twice',
    steps: [{ run: 'die() { exit 3; }; die; ', code: 3 }, { run: 'die', code: 3 }, { run: 'unset -f die' }],
  },
  { name: 'kill -9', steps: [{ run: 'kill -9 $$', code: 137, restarted: true }] },
  { name: 'exec', steps: [{ run: 'exec true', restarted: true }] },
]

/** A state, then a way to go on, then a look. Traps and options of the state may add output to the way: not looked at. */
function cases(way: (typeof ways)[number]): Case[] {
  return states.map(({ name, set, see, ...seen }) => ({
    name: `${name}`,
    steps: [
      ...set.map((run) => ({ run })),
      ...way.steps.map((step) => (/DEBUG|ERR/.test(name) ? { ...step, out: /^/ } : step)),
      { run: see, ...seen },
    ],
  }))
}

for (const way of ways) conforms(`state over ${way.name}`, cases(way))
