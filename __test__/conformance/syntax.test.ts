import { conforms } from '../helpers/conformance.js'

const message = /^bash: (-c: |eval: )?line \d+: /

/** Texts that bash refuses to run; nothing of the refused line runs. */
const refused = [
  'if',
  'fi',
  'echo no; }; }',
  '}; }',
  ')',
  'done',
  'while true',
  'for',
  'for x in a; do',
  'case x in',
  'case x in a) echo;;',
  'function',
  'f() {',
  'f() }',
  '{ echo no',
  '(echo no',
  '((1',
  '[[ a',
  '[[ a == ]]',
  'echo |',
  '| cat',
  '&& true',
  'true &&',
  ';;',
  '&',
  'echo >',
  'cat <<',
  'echo $(',
  'echo $(echo a',
  'echo ${x',
  'echo $((1+',
  'echo `echo',
  "echo 'a",
  'echo "a',
  "echo $'a",
  'x="$(echo "a)"',
  'if true; then echo no; else; fi',
  'echo a; if; fi',
  'select x in',
  'coproc',
  'time |',
  '! |',
  'a() b() c',
]

conforms('a text that is no program', {
  ...Object.fromEntries(
    refused.map((run) => [
      run,
      [
        { run: 'x=kept; set -- arg' },
        { run, code: 2, err: message },
        { run: 'echo "$? $x $1"', out: '2 kept arg\n' },
      ],
    ]),
  ),
  'one after the other, the shell stays the same': [
    { run: 'p=$$' },
    ...refused.map((run) => ({ run, code: 2, err: message })),
    { run: '[[ $p == $$ ]] && echo same', out: 'same\n' },
  ],
  'an unclosed list of an array': [
    { run: 'a=(1 2', code: 1, err: message },
    { run: 'echo ${#a[@]}', out: '0\n' },
  ],
  'an unclosed substitution, then an unclosed group': [
    { run: 'echo $(echo a', code: 2, err: message },
    { run: '{ echo b', code: 2, err: message },
    { run: 'echo c', out: 'c\n' },
  ],
  'lines before the error run': [
    { run: 'echo a\necho b\n)\necho c', out: 'a\nb\n', code: 2, err: message },
    { run: 'echo d', out: 'd\n' },
  ],
  'the message names the line of the error': [
    { run: 'echo a\n\nfi', out: 'a\n', code: 2, err: /line 3: syntax error near unexpected token `fi'/ },
  ],
  'in eval, in a file, in another shell': [
    { run: "eval 'fi'; echo $?", out: '2\n', err: /syntax error near unexpected token `fi'/ },
    { run: "echo 'fi' >file; . ./file; echo $?", out: '2\n', err: /^\.\/file: line 1: syntax error/ },
    { run: "bash -c 'fi'; echo $?", out: '2\n', err: /syntax error/ },
  ],
  'of an alias': [
    { run: "shopt -s expand_aliases; alias oops='if'" },
    { run: 'oops', code: 2, err: message },
    { run: 'unalias oops; echo on', out: 'on\n' },
  ],
})

conforms('a text that looks like no program', {
  'an unterminated here-document': [
    {
      run: 'cat <<EOF\nabc',
      out: 'abc\n',
      err: /here-document at line 1 delimited by end-of-file \(wanted `EOF'\)/,
    },
    { run: 'cat <<EOF', out: '', err: /here-document/ },
    { run: 'echo on', out: 'on\n' },
  ],
  'a backslash at the end': [
    { run: 'echo a\\', out: 'a\\\n' },
    { run: 'echo a\\\n', out: 'a\n' },
  ],
  'a comment at the end': [
    { run: 'echo a # b', out: 'a\n' },
    { run: 'echo a # b\n', out: 'a\n' },
  ],
  'nothing but a comment': [{ run: '# a' }, { run: '  # a \n\n # b' }, { run: ':' }],
  'line ends and blanks around': [
    { run: '\n\n  echo a  \n\n', out: 'a\n' },
    { run: '\techo\ta;', out: 'a\n' },
  ],
  'carriage returns are characters': [
    { run: 'echo a\r', out: 'a\r\n' },
    { run: 'echo a\r\necho b', out: 'a\r\nb\n' },
  ],
  'words that are reserved, as arguments': [
    { run: 'echo if then fi } { ! [[ ]] done', out: 'if then fi } { ! [[ ]] done\n' },
  ],
  'a group and a subshell over lines': [{ run: '{\necho a\n}\n(\necho b\n)', out: 'a\nb\n' }],
  'a function over several lines, called immediately': [
    { run: 'f()\n{\n  echo "$LINENO"\n}\nf', out: '3\n' },
  ],
  'line numbers begin at 1 in each command': [
    { run: 'echo $LINENO\necho $LINENO', out: '1\n2\n' },
    { run: 'echo $LINENO', out: '1\n' },
    { run: 'false' },
    { run: '\necho $LINENO; nope', out: '2\n', code: 127, err: 'bash: line 2: nope: command not found\n' },
  ].map((step) => (step.run === 'false' ? { ...step, code: 1 } : step)),
  'here-documents within here-documents': [
    { run: 'cat <<A; cat <<B\na\n$(cat <<C\nc\nC\n)\nA\nb\nB\necho d', out: 'a\nc\nb\nd\n' },
  ],
  'a text of 300 kB in one word, and in ten thousand lines': [
    { run: `echo ${'x'.repeat(300_000)} | wc -c`, out: '300001\n' },
    { run: 'n=$((n+1))\n'.repeat(10_000) },
    { run: 'echo $n', out: '10000\n' },
  ],
  'deep nesting': [
    { run: `${'( '.repeat(20)} echo deep ${' )'.repeat(20)}`, out: 'deep\n' },
    { run: `echo ${'$(echo '.repeat(20)}deep${' )'.repeat(20)}`, out: 'deep\n' },
  ],
  'characters that are no ASCII': [
    {
      run: 'ü=1; echo "größe → 名前 🎉"',
      out: 'größe → 名前 🎉\n',
      code: 0,
      err: 'bash: line 1: ü=1: command not found\n',
    },
  ],
  'control characters': [
    { run: "printf %s '\x01\x02\n\x1b[1m\x7f' | od -An -c", out: ' 001 002  \\n 033   [   1   m 177\n' },
  ],
})
