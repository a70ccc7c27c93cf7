import { conforms } from '../helpers/conformance.js'

conforms('redirections of the whole shell', {
  'exec >/dev/null': [
    { run: 'echo seen; exec >/dev/null; echo lost; echo err >&2', out: 'seen\n', err: 'err\n' },
    { run: 'echo back', out: 'back\n' },
  ],
  'exec >file': [{ run: 'exec >file; echo a; ls' }, { run: 'cat file', out: 'a\nfile\n' }],
  'exec 2>&1': [
    { run: 'exec 2>&1; echo e >&2; nope', code: 127, out: 'e\nbash: line 1: nope: command not found\n' },
    { run: 'echo e >&2', err: 'e\n' },
  ],
  'exec 0<&-': [
    {
      run: 'exec 0<&-; cat',
      code: 1,
      err: 'cat: -: Bad file descriptor\ncat: closing standard input: Bad file descriptor\n',
    },
    { run: 'cat' },
    { run: 'exec <&-; cat', options: { input: 'never read' }, code: 1, err: /Bad file descriptor/ },
    { run: 'cat', options: { input: 'read' }, out: 'read' },
  ],
  'exec >&-': [
    { run: 'exec >&-; echo x', code: 1, err: 'bash: line 1: echo: write error: Bad file descriptor\n' },
    { run: 'echo y', out: 'y\n' },
  ],
  'exec 2>&-': [
    { run: 'exec 2>&-; nope', code: 127 },
    { run: 'nope', code: 127, err: 'bash: line 1: nope: command not found\n' },
  ],
  'closing every descriptor up to 255': [
    { run: 'x=1; for ((i = 0; i < 256; i++)); do eval "exec $i>&-"; done; x=2; echo lost', code: 1 },
    { run: 'echo $x; echo e >&2; cat', out: '2\n', err: 'e\n' },
    { run: 'for ((i = 255; i >= 0; i--)); do eval "exec $i<&-"; done; x=3; exit 4', code: 4 },
    { run: 'echo $x', out: '3\n' },
  ],
  'every descriptor opened elsewhere': [
    { run: 'for ((i = 0; i < 256; i++)); do eval "exec $i<>/dev/null"; done; echo lost' },
    { run: 'echo on; exit 4', out: 'on\n', code: 4 },
    { run: 'echo on', out: 'on\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: 'echo on', out: 'on\n' },
  ],
  'exec <file': [
    { run: "printf '1\\n2\\n' >file; exec <file; read x; read y; echo $x $y", out: '1 2\n' },
    { run: 'cat; echo end', out: 'end\n' },
  ],
  'exec through a pipe': [
    { run: 'exec > >(tr a-z A-Z); echo loud; exec >&-; wait $!', out: 'LOUD\n' },
    { run: 'echo soft', out: 'soft\n' },
  ],
  'redirections and exit together': [
    { run: 'exec >file 2>&1; echo a; echo b >&2; exit 3', code: 3 },
    { run: 'cat file', out: 'a\nb\n' },
  ],
})

conforms('descriptors of the session', {
  'a file to read stays open': [
    { run: 'seq 5 >file; exec 3<file; read -r a <&3' },
    { run: 'read -r b <&3; read -u 3 c; echo $a $b $c', out: '1 2 3\n' },
    { run: 'exec 3<&-; read -r d <&3', code: 1, err: 'bash: line 1: 3: Bad file descriptor\n' },
  ],
  'a descriptor named by bash': [
    { run: 'exec {log}>file; (( log >= 10 )) && echo a >&$log' },
    { run: 'echo b >&"$log"; exec {log}>&-; cat file', out: 'a\nb\n' },
  ],
  'a file to read and write, appended, moved and copied': [
    { run: 'exec 4<>file; echo abc >&4; exec 5>>file; echo def >&5; exec 6>&5 7>&6-' },
    {
      run: 'echo ghi >&7; cat file; cat <&6',
      out: 'abc\ndef\nghi\n',
      code: 1,
      err: 'bash: line 1: 6: Bad file descriptor\n',
    },
  ],
  'a pipe from a process substitution': [
    { run: 'exec 3< <(seq 3); read -u 3 a' },
    { run: 'read -u 3 b; read -u 3 c; read -u 3 d; echo $? $a $b $c', out: '1 1 2 3\n' },
  ],
  'a FIFO and its reader': [
    { run: 'mkfifo p; cat p >got & exec 3>p; echo one >&3' },
    { run: 'echo two >&3; exec 3>&-; wait; cat got', out: 'one\ntwo\n' },
  ],
  'a descriptor of one command': [
    { run: '{ echo a >&3; } 3>&1', out: 'a\n' },
    { run: 'echo a >&3', code: 1, err: 'bash: line 1: 3: Bad file descriptor\n' },
  ],
  'descriptors reach children': [
    { run: "exec 9<<<'in'; bash -c 'cat <&9'", out: 'in\n' },
    { run: 'ls /proc/self/fd | tr "\\n" " "', out: '0 1 2 3 9 ' },
  ],
})

conforms('redirections of a command', {
  'stdout and stderr apart': [{ run: 'echo out; echo err >&2; echo out', out: 'out\nout\n', err: 'err\n' }],
  'stdout and stderr exchanged': [
    { run: '{ echo out; echo err >&2; } 3>&1 1>&2 2>&3', out: 'err\n', err: 'out\n' },
  ],
  'both into one': [
    { run: '{ echo a; echo b >&2; echo c; } 2>&1', out: 'a\nb\nc\n' },
    { run: '{ echo a; echo b >&2; } &>file; cat file', out: 'a\nb\n' },
    { run: '{ echo a; echo b >&2; } |& tr ab xy', out: 'x\ny\n' },
  ],
  'by the names in /dev': [
    {
      run: 'echo a; echo b >/dev/stdout; echo c; echo d >/dev/stderr; echo e >/dev/fd/2',
      out: 'a\nb\nc\n',
      err: 'd\ne\n',
    },
    { run: 'cat /dev/stdin /dev/fd/0', options: { input: 'x' }, out: /^xx?$/ },
  ],
  noclobber: [
    {
      run: 'set -C; echo a >file; echo b >file',
      code: 1,
      err: 'bash: line 1: file: cannot overwrite existing file\n',
    },
    { run: 'echo c >|file; cat file', out: 'c\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo d >file', code: 1, err: 'bash: line 1: file: cannot overwrite existing file\n' },
  ],
  'here-strings and here-documents on several descriptors': [
    { run: "cat <<<x 3<<<y; cat /dev/fd/3 3<<<y; cat 4<<'E' <&4\n$z\nE", out: 'x\ny\n$z\n' },
  ],
  'to a directory, a missing one, a file that is not readable text': [
    { run: 'echo a >.', code: 1, err: 'bash: line 1: .: Is a directory\n' },
    { run: 'echo a >no/file', code: 1, err: 'bash: line 1: no/file: No such file or directory\n' },
    { run: 'cat <no', code: 1, err: 'bash: line 1: no: No such file or directory\n' },
    { run: 'echo a >"$nothing"', code: 1, err: 'bash: line 1: : No such file or directory\n' },
  ],
  'the kinds of standard streams': [
    { run: '[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no terminal', out: 'no terminal\n' },
    { run: '[ -p /dev/stdout ] && [ -p /dev/stderr ] && echo pipes', out: 'pipes\n' },
  ],
  'a reader that leaves early': [
    { run: 'yes | head -n 1; echo "${PIPESTATUS[@]}"', out: 'y\n141 0\n' },
    { run: 'seq 100000 | sed 2q', out: '1\n2\n' },
  ],
})
