import { conforms } from '../helpers/conformance.js'

conforms('parameters of the shell', {
  '$? of the command before': [
    { run: 'echo $?', out: '0\n' },
    { run: 'false', code: 1 },
    { run: 'echo $?', out: '1\n' },
    { run: 'echo $?', out: '0\n' },
    { run: '(exit 42)', code: 42 },
    { run: 'x=$?; echo $x ${?}', out: '42 0\n' },
    { run: 'nope', code: 127, err: 'bash: line 1: nope: command not found\n' },
    { run: 'test $? = 127 && echo seen', out: 'seen\n' },
  ],
  '$? with a DEBUG trap': [
    { run: "trap ':' DEBUG" },
    { run: 'false', code: 1 },
    { run: 'echo $?', out: '1\n' },
    { run: 'f() { return 3; }; f', code: 3 },
    { run: 'echo $?', out: '3\n' },
  ],
  '$_ after an exit': [
    { run: 'exit 3', code: 3 },
    { run: 'mkdir -p one/two' },
    { run: 'cd $_; pwd', out: '<dir>/one/two\n' },
  ],
  '$? of an exit': [
    { run: 'exit 3', code: 3 },
    { run: 'echo $?', out: '3\n' },
    { run: 'set -e; (exit 4)', code: 4 },
    { run: 'echo $?; set +e', out: '4\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: 'echo $?', out: '137\n' },
  ],
  '$? in a function, a trap and a here-document': [
    { run: "f() { echo $?; return $?; }; trap 'echo T$?' USR1; (exit 5)", code: 5 },
    { run: 'f', out: '5\n' },
    { run: '(exit 6)', code: 6 },
    { run: 'cat <<E\n$?\nE', out: '6\n' },
    { run: '(exit 7)', code: 7 },
    { run: 'if [ $? -eq 7 ]; then echo yes; fi', out: 'yes\n' },
  ],
  'the status of a return and of a syntax error': [
    { run: 'f() { return 9; }; f', code: 9 },
    { run: 'echo $?', out: '9\n' },
    { run: 'fi', code: 2, err: /syntax error/ },
    { run: 'echo $?', out: '2\n' },
  ],
  $_: [
    { run: 'echo a b', out: 'a b\n' },
    { run: 'echo $_', out: 'b\n' },
    { run: 'mkdir -p one/two' },
    { run: 'cd $_', cwd: '<dir>/one/two' },
  ],
  '$$ and BASHPID': [
    { run: 'p=$$; echo $BASHPID $$', out: /^(\d+) \1\n$/ },
    { run: '[ $p = $$ ] && echo same', out: 'same\n' },
    { run: 'exit 3', code: 3 },
    { run: '[ $p = $$ ] && echo same; (echo $$ $BASHPID)', out: /^same\n(\d+) (?!\1)\d+\n$/ },
  ],
  '$! is what the user made, and nothing else': [
    { run: 'echo "[$!]"', out: '[]\n' },
    { run: 'sleep 0.01; echo "[$!]"', out: '[]\n' },
    { run: 'sleep 60 & p=$!' },
    { run: '[ $p = $! ] && kill $p && echo ours', out: 'ours\n' },
  ],
  'PPID, SHLVL, BASH_SUBSHELL, $0 and $-': [
    { run: 'a="$PPID $SHLVL $BASH_SUBSHELL $0 $-"; echo "$SHLVL $BASH_SUBSHELL $0"', out: '1 0 bash\n' },
    { run: '[ "$a" = "$PPID $SHLVL $BASH_SUBSHELL $0 $-" ] && echo same', out: 'same\n' },
    { run: 'exit 3', code: 3 },
    { run: '[ "$a" = "$PPID $SHLVL $BASH_SUBSHELL $0 $-" ] && echo same', out: 'same\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: '[ "$a" = "$PPID $SHLVL $BASH_SUBSHELL $0 $-" ] && echo same', out: 'same\n' },
  ],
  'RANDOM with a seed, EPOCHSECONDS, SECONDS': [
    { run: 'RANDOM=42; a=$RANDOM; RANDOM=42' },
    {
      run: '[ $RANDOM = $a ] && (( EPOCHSECONDS > 1e9 ? 1 : 1 )) 2>/dev/null; (( SECONDS < 60 )) && echo $?',
      out: '0\n',
    },
  ],
  'positional parameters and shift': [
    { run: 'set -- a "b c" d' },
    { run: 'shift; echo $# "$1"', out: '2 b c\n' },
    { run: 'for x; do echo "$x"; done', out: 'b c\nd\n' },
    { run: 'f() { set -- x; echo $1; }; f; echo $1', out: 'x\nb c\n' },
  ],
  directories: [
    { run: 'mkdir a b; pushd a', out: '<dir>/a <dir>\n', cwd: '<dir>/a' },
    { run: 'pushd ../b', out: '<dir>/b <dir>/a <dir>\n' },
    { run: 'dirs -v', out: ' 0  <dir>/b\n 1  <dir>/a\n 2  <dir>\n' },
    { run: 'popd', out: '<dir>/a <dir>\n', cwd: '<dir>/a' },
    { run: 'exit 3', code: 3 },
    {
      run: 'dirs; popd; popd',
      code: 1,
      out: '<dir>/a <dir>\n<dir>\n',
      err: 'bash: line 1: popd: directory stack empty\n',
      cwd: '<dir>',
    },
  ],
  'a regular expression and a loop variable': [
    { run: '[[ abc =~ b(.) ]]; for i in 1 2 3; do :; done' },
    { run: 'echo ${BASH_REMATCH[1]} $i', out: 'c 3\n' },
  ],
  'names of functions on the stack': [
    { run: 'f() { echo "${FUNCNAME[*]} ${BASH_LINENO[*]}"; caller; }; f', out: 'f 1\n1 NULL\n' },
    { run: 'echo "[${FUNCNAME[*]}] [${BASH_SOURCE[*]}]"; caller; echo $?', out: '[] []\n1\n' },
  ],
})

conforms('jobs', {
  'wait $! gives the status': [
    { run: '(exit 7) &' },
    { run: 'wait $!; echo $?', out: '7\n' },
    { run: '{ sleep 0.05; exit 8; } & a=$!; { exit 9; } & b=$!' },
    { run: 'wait $a; echo $?; wait $b; echo $?', out: '8\n9\n' },
  ],
  'wait for all, for the next, for none': [
    // The last job ends during `wait`: when it has ended before, bash 5.2.37 and 5.3 keep it for `wait -n`.
    { run: 'sleep 0.02 & sleep 0.3 &' },
    { run: 'wait; echo $?', out: '0\n' },
    { run: '(exit 5) & wait -n; echo $?', out: '5\n' },
    { run: 'wait -n; echo $?', out: '127\n' },
    { run: 'wait; echo $?', out: '0\n' },
    {
      run: 'wait 1; echo $?',
      out: '127\n',
      err: 'bash: line 1: wait: pid 1 is not a child of this shell\n',
    },
  ],
  'wait of a job killed by a signal': [
    { run: 'sleep 60 & p=$!' },
    {
      run: 'kill $p; wait $p; echo $?',
      out: '143\n',
      err: /^(bash: line \d+: +\d+ Terminated +sleep 60\n)?$/,
    },
  ],
  'a job killed as soon as it runs': [
    {
      run: 'begun() { until [[ $(< /proc/$!/comm) == sleep ]]; do :; done; }; sleep 60 & begun; kill $!; wait $!; echo $?',
      out: '143\n',
      err: /^(bash: line \d+: +\d+ Terminated +sleep 60\n)?$/,
    },
    {
      run: 'sleep 60 & begun; kill %1; wait; echo on',
      out: 'on\n',
      err: /^(bash: line \d+: +\d+ Terminated +sleep 60\n)?$/,
    },
    {
      run: 'for i in 1 2 3 4 5; do sleep 60 & begun; kill -HUP $!; wait $!; echo $?; done 2>/dev/null',
      out: '129\n129\n129\n129\n129\n',
    },
  ],
  'jobs, %1, disown': [
    { run: 'sleep 60 &' },
    { run: 'jobs', out: '[1]+  Running                 sleep 60 &\n' },
    { run: 'sleep 61 & jobs %2; jobs -p | wc -l', out: '[2]+  Running                 sleep 61 &\n2\n' },
    {
      run: 'kill %1; wait %1; echo $?',
      out: '143\n',
      err: /^(bash: line \d+: +\d+ Terminated +sleep 60\n)?$/,
    },
    { run: 'disown %2; jobs; kill $!' },
  ],
  'fg and bg without job control': [
    { run: 'sleep 60 & fg', code: 1, err: 'bash: line 1: fg: no job control\n' },
    { run: 'bg; kill $!', err: 'bash: line 1: bg: no job control\n' },
  ],
  'a background job does not delay the command, and its late output is discarded': [
    {
      run: '{ while [ ! -e go ]; do sleep 0.005; done; echo late; echo late >&2; echo done >log; } & echo hi',
      out: 'hi\n',
    },
    { run: 'touch go; while [ ! -s log ]; do sleep 0.005; done; echo mine', out: 'mine\n' },
    { run: 'wait $!; echo $?; cat log', out: '0\ndone\n' },
  ],
  'a background job that writes megabytes later': [
    { run: '{ while [ ! -e go ]; do sleep 0.005; done; head -c 3000000 /dev/zero; echo $? >log; } &' },
    { run: 'touch go; wait; cat log', out: '0\n' },
  ],
  'nohup, setsid and a subshell in the background': [
    { run: 'nohup sleep 60 >/dev/null 2>&1 & setsid sleep 60 & (sleep 60 &); echo hi', out: 'hi\n' },
    { run: 'jobs | wc -l', out: '2\n' },
  ],
  'jobs live on over exit and over kill -9 of the shell': [
    { run: 'sleep 60 & p=$!' },
    { run: 'exit 3', code: 3 },
    { run: 'kill -0 $p && echo alive', out: 'alive\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: 'kill -0 $p && echo alive', out: 'alive\n' },
  ],
  'a coprocess': [
    { run: 'coproc UP { while read -r l; do echo "${l^^}"; done; }' },
    { run: 'echo hi >&${UP[1]}; read -r -u ${UP[0]} x; echo $x', out: 'HI\n' },
    { run: 'eval "exec ${UP[1]}>&-"; wait $UP_PID; echo $?', out: '0\n' },
  ],
  'process substitutions': [
    { run: 'cat <(echo a) <(echo b); diff <(seq 3) <(seq 3) && echo same', out: 'a\nb\nsame\n' },
    {
      run: 'seq 3 > >(tr 123 abc >got; touch done); while [ ! -e done ]; do sleep 0.005; done; cat got',
      out: 'a\nb\nc\n',
    },
    { run: 'while read -r x; do n=$x; done < <(seq 9); echo $n', out: '9\n' },
  ],
  'time, and loops with break and continue': [
    { run: "TIMEFORMAT='t %0lR'; time true", err: /^t \d+m\d+s\n$/ },
    { run: 'for i in 1 2 3; do [ $i = 2 ] && continue; [ $i = 3 ] && break; echo $i; done', out: '1\n' },
    { run: 'while :; do while :; do break 2; done; done; echo on', out: 'on\n' },
  ],
})

conforms('words and documents', {
  'here-documents': [
    {
      run: "x=1; cat <<A; cat <<'B'; cat <<-C\n$x $(echo 2)\nA\n$x\nB\n\ttab $x\n\tC",
      out: '1 2\n$x\ntab 1\n',
    },
    { run: 'cat <<E\n\\$x \\\\ `echo 3`\nE', out: '$x \\ 3\n' },
    { run: `cat <<E | wc -c\n${'x'.repeat(100_000)}\nE`, out: '100001\n' },
  ],
  'here-strings and quoting': [
    { run: `cat <<<"a 'b' $x \${x:-c}"; cat <<<$'t\\ta'`, out: "a 'b'  c\nt\ta\n" },
    { run: `printf '<%s>' "a b" 'c"d' e\\ f $'g\\nh' ""`, out: '<a b><c"d><e f><g\nh><>' },
  ],
  'a script with everything': [
    {
      run: 'sum=0\nfor i in {1..10}; do\n  (( i % 2 )) || continue\n  (( sum += i ))\ndone\ncase $sum in\n  25) echo "odd sum $sum" ;;\n  *) echo wrong ;;\nesac',
      out: 'odd sum 25\n',
    },
    { run: 'echo $sum $i', out: '25 10\n' },
  ],
  'select, mapfile, printf -v, read -a': [
    { run: 'mapfile -t m < <(seq 3); printf -v p "%03d" 7; read -ra r <<<"x y z"' },
    { run: 'echo ${m[2]} $p ${r[1]}', out: '3 007 y\n' },
  ],
})
