import { conforms } from '../helpers/conformance.js'

const binary = Buffer.from(Array.from({ length: 256 * 40 }, (_, index) => index % 256))
const numbers = Array.from({ length: 50_000 }, (_, index) => `${index}\n`).join('')

conforms('standard input that is not given', {
  cat: [{ run: 'cat' }, { run: 'cat -; cat /dev/stdin; echo end', out: 'end\n' }],
  read: [
    { run: 'read x', code: 1 },
    { run: 'read x || echo "eof [$x]"', out: 'eof []\n' },
    { run: 'mapfile a; echo ${#a[@]}', out: '0\n' },
  ],
  'an interpreter': [
    { run: 'bash -s a; sh; awk "{ print }"; sort; wc -c', out: '0\n' },
    { run: 'python3 -', out: '' },
  ],
  'a loop and a substitution': [{ run: 'while read -r l; do echo no; done; echo "[$(cat)]"', out: '[]\n' }],
  'in the background and in a pipeline': [{ run: 'cat & wait; cat | cat; echo end', out: 'end\n' }],
  'of a select': [{ run: 'select x in a b; do echo no; done', out: '\n', code: 1, err: /1\) a/ }],
})

conforms('standard input', {
  'text, its end and the next command': [
    { run: 'cat', options: { input: 'a\nb' }, out: 'a\nb' },
    { run: 'cat' },
  ],
  'text of many alphabets': [{ run: 'cat', options: { input: 'ü→🎉\0x' }, out: 'ü→🎉\0x' }],
  nothing: [{ run: 'read -r x; echo $?', options: { input: '' }, out: '1\n' }],
  'read line by line, by the shell and by programs': [
    {
      run: 'read -r a; read -r b; head -n 1; echo "$a|$b"',
      options: { input: 'one\n two \nthree\nfour\n' },
      out: 'three\none|two\n',
    },
  ],
  'read in a loop': [
    {
      run: 'n=0; while IFS= read -r l; do n=$((n + 1)); done; echo $n "[$l]"',
      options: { input: 'a\nb\nc' },
      out: '2 [c]\n',
    },
  ],
  'read by a subshell, a pipeline, a function and a substitution': [
    {
      run: 'f() { read -r x; echo "f $x"; }; (read -r x; echo "s $x"); f; x=$(read -r y; echo "$y"); echo "c $x"; cat | tr a-z A-Z',
      options: { input: 'one\ntwo\nthree\nfour\n' },
      out: 's one\nf two\nc three\nFOUR\n',
    },
  ],
  'a program for an interpreter': [
    { run: 'bash -s "a b"', options: { input: 'echo "$1"; exit 3' }, out: 'a b\n', code: 3 },
    { run: 'python3 -', options: { input: 'print(1 + 1)' }, out: '2\n' },
  ],
  'bytes of every value': [
    { run: 'cat', options: { input: binary, encoding: 'buffer' }, out: binary, err: new Uint8Array() },
  ],
  'more than a pipe holds': [
    { run: 'cksum; echo end', options: { input: numbers }, out: '3264285939 288890\nend\n' },
  ],
  'more than the command reads': [
    { run: 'head -c 3', options: { input: 'x'.repeat(1_000_000) }, out: 'xxx' },
    { run: 'echo on', out: 'on\n' },
  ],
  'that nothing reads': [
    { run: 'echo a', options: { input: 'x'.repeat(1_000_000) }, out: 'a\n' },
    { run: 'cat' },
  ],
  'of a command that exits': [
    { run: 'read -r x; echo $x; exit 3', options: { input: 'a\nb\n' }, out: 'a\n', code: 3 },
    { run: 'cat', options: { input: 'c' }, out: 'c' },
  ],
  'of a background command': [{ run: '{ cat; } <&0 & wait $!', options: { input: 'a' }, out: 'a' }],
  'without waiting, and with a limit': [
    {
      run: 'read -t 0 && echo ready; read -n 2 x; read -N 2 y; read -d : z; echo "$x|$y|$z"',
      options: { input: 'abcdef:g' },
      out: /^(ready\n)?ab\|cd\|ef\n$/,
    },
  ],
  'of an argument list': [
    { run: ['cat'], options: { input: 'a' }, out: 'a' },
    { run: ['read', '-r', 'x'], options: { input: 'kept\n' } },
    { run: 'echo $x', out: 'kept\n' },
  ],
})
