import { conforms } from '../helpers/conformance.js'

const hostile = [
  'a b',
  '$HOME',
  '*',
  "it's",
  '"',
  '',
  'a\nb',
  ';',
  '&&',
  '`id`',
  '$(id)',
  '\\',
  '-n',
  '#',
  '~',
  '{a,b}',
  '!',
  '>x',
  'ü\x01\t\x7f',
  '\\n',
]

conforms('an argument list', {
  'is passed on as it is': [
    { run: ['printf', '<%s>', ...hostile], out: hostile.map((word) => `<${word}>`).join('') },
    {
      run: ['bash', '-c', 'printf "<%s>" "$@"', 'bash', ...hostile],
      out: hostile.map((word) => `<${word}>`).join(''),
    },
  ],
  'is a program or a builtin, never a function, an alias or a keyword': [
    { run: "shopt -s expand_aliases; ls() { echo f; }; alias pwd='echo a'" },
    { run: ['ls', '-d', '/'], out: '/\n' },
    { run: ['pwd'], out: '<dir>\n' },
    { run: ['if'], code: 127, err: 'bash: line 1: if: command not found\n' },
    { run: ['x=1'], code: 127, err: 'bash: line 1: x=1: command not found\n' },
    { run: ['-x'], code: 127, err: 'bash: line 1: -x: command not found\n' },
  ],
  'changes the session when it is a builtin': [
    { run: ['cd', '/usr'], cwd: '/usr' },
    { run: ['export', 'A=b c'] },
    { run: 'pwd; echo $A', out: '/usr\nb c\n' },
    { run: ['set', '--', 'p q'] },
    { run: 'echo "$1"', out: 'p q\n' },
    { run: ['exit', '3'], code: 3 },
    { run: 'pwd; echo $A', out: '/usr\nb c\n' },
    { run: ['kill', '-9', '1x'], code: 1, err: /1x/ },
  ],
  'knows PATH, codes and signals': [
    { run: ['true'] },
    { run: ['false'], code: 1 },
    { run: ['no-such-program'], code: 127, err: 'bash: line 1: no-such-program: command not found\n' },
    { run: ['/usr'], code: 126, err: 'bash: line 1: /usr: Is a directory\n' },
    { run: ['bash', '-c', 'kill -9 $$'], code: 137, err: /^(bash: line \d+: +\d+ Killed .*\n)?$/ },
    { run: ['./tool'], code: 127, err: 'bash: line 1: ./tool: No such file or directory\n' },
    {
      run: 'mkdir bin; printf "#!/bin/sh\\necho tool \\$1\\n" >bin/tool; chmod +x bin/tool; PATH=$PWD/bin:$PATH',
    },
    { run: ['tool', 'x'], out: 'tool x\n' },
  ],
  'may be long': [
    {
      run: ['bash', '-c', 'echo $#', 'bash', ...Array.from({ length: 5000 }, (_, index) => `${index}`)],
      out: '5000\n',
    },
    { run: ['printf', '%s', 'x'.repeat(100_000)], out: 'x'.repeat(100_000) },
  ],
  'does not expand, whatever the options are': [
    { run: 'touch a b; set -o posix; IFS=b; set -H' },
    { run: ['echo', '*', 'abc', '!!'], out: '* abc !!\n' },
    { run: 'set +o posix; set -f' },
    { run: ['echo', '?'], out: '?\n' },
  ],
  'under a hostile name': [
    { run: 'command() { echo mine; }; printf() { echo mine; }' },
    { run: ['printf', 'a'], out: 'a' },
    { run: ['command', 'echo', 'b'], out: 'b\n' },
  ],
})
