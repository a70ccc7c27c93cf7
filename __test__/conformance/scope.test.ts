import { conforms } from '../helpers/conformance.js'

conforms('cwd for one command', {
  'does not last': [
    { run: 'pwd; echo $PWD', options: { cwd: '/usr' }, out: '/usr\n/usr\n', cwd: '<dir>' },
    { run: 'pwd; echo "${OLDPWD-none}"', out: '<dir>\nnone\n' },
  ],
  'against the directory of the session': [
    { run: 'mkdir -p a/b; cd a' },
    { run: 'pwd', options: { cwd: 'b' }, out: '<dir>/a/b\n', cwd: '<dir>/a' },
    { run: 'pwd', options: { cwd: '..' }, out: '<dir>\n' },
  ],
  'is not the place a cd leads away from': [
    { run: 'cd /etc', options: { cwd: '/usr' }, cwd: '<dir>' },
    { run: 'pwd', out: '<dir>\n' },
  ],
  'keeps OLDPWD and the directory stack': [
    { run: 'cd /etc; cd /usr; pushd / >/dev/null' },
    { run: 'dirs', options: { cwd: '/tmp' }, out: '/tmp /usr\n' },
    { run: 'dirs; echo $OLDPWD', out: '/ /usr\n/usr\n' },
  ],
  'does not exist': [
    { run: 'touch ran', options: { cwd: '/no/such' }, rejects: 'CWD_NOT_FOUND' },
    { run: 'ls; pwd', out: '<dir>\n' },
  ],
  'is a file': [
    { run: 'touch file' },
    { run: 'touch ran', options: { cwd: 'file' }, rejects: 'CWD_NOT_FOUND' },
    { run: 'ls', out: 'file\n' },
  ],
  'has been deleted': [
    { run: 'mkdir gone; rmdir gone' },
    { run: 'true', options: { cwd: 'gone' }, rejects: 'CWD_NOT_FOUND' },
  ],
  'with a name full of characters': [
    { run: `mkdir $'a b\\n\\'"$x\\\\' -- -d` },
    { run: 'pwd', options: { cwd: `a b\n'"$x\\` }, out: `<dir>/a b\n'"$x\\\n` },
    { run: 'pwd', options: { cwd: '-d' }, out: '<dir>/-d\n' },
  ],
  'through a link': [
    { run: 'mkdir real; ln -s real link' },
    { run: 'pwd; pwd -P', options: { cwd: 'link' }, out: '<dir>/link\n<dir>/real\n' },
  ],
  'and an exit in the command': [
    { run: 'x=2; exit 3', options: { cwd: '/usr' }, code: 3, cwd: '<dir>' },
    { run: 'pwd; echo $x', out: '<dir>\n2\n' },
  ],
  'and a kill in the command': [
    { run: 'kill -9 $$', options: { cwd: '/usr' }, code: 137, restarted: true, cwd: '<dir>' },
    { run: 'pwd', out: '<dir>\n' },
    { run: 'exec true', options: { cwd: '/etc' }, restarted: true, cwd: '<dir>' },
    { run: 'pwd', out: '<dir>\n' },
  ],
  'of a session whose own directory has gone': [
    { run: 'mkdir gone; cd gone; rmdir ../gone' },
    { run: 'pwd', options: { cwd: '/usr' }, out: '/usr\n' },
    { run: 'echo on', out: 'on\n' },
  ],
})

conforms('env for one command', {
  'does not last': [
    { run: 'echo $A; bash -c "echo \\$A"', options: { env: { A: '1' } }, out: '1\n1\n' },
    { run: 'echo "${A-unset}"', out: 'unset\n' },
  ],
  'puts back what was there, exported or not': [
    { run: 'A=a; export B=b; declare -i C=3; D=(x y); declare -A E=([k]=v)' },
    {
      run: 'echo $A $B $C $D $E; env | grep -cE "^[A-E]="',
      options: { env: { A: '1', B: undefined, C: '2', D: '4', E: '5' } },
      out: /^1 2 4 5\n4\n$/,
    },
    {
      run: 'declare -p A B C D E',
      out: 'declare -- A="a"\ndeclare -x B="b"\ndeclare -i C="3"\ndeclare -a D=([0]="x" [1]="y")\ndeclare -A E=([k]="v" )\n',
    },
  ],
  'is not what the command leaves': [
    { run: 'A=2; export NEW=1', options: { env: { A: '1' } } },
    { run: 'echo "${A-unset} $NEW"', out: 'unset 1\n' },
  ],
  'with values full of characters': [
    { run: 'printf %s "$A"', options: { env: { A: ` a\n'"$x\\\`!\x01ü\t` } }, out: ` a\n'"$x\\\`!\x01ü\t` },
    { run: 'echo "[$A][$B]"', options: { env: { A: '', B: '=' } }, out: '[][=]\n' },
  ],
  'and an exit in the command': [
    { run: 'export A=0' },
    { run: 'x=2; exit 3', options: { env: { A: '1', B: '2' } }, code: 3 },
    { run: 'echo "$A ${B-unset} $x"', out: '0 unset 2\n' },
  ],
  'and a kill in the command': [
    { run: 'export A=0' },
    { run: 'kill -9 $$', options: { env: { A: '1', B: '2' } }, code: 137, restarted: true },
    { run: 'echo "$A ${B-unset}"', out: '0 unset\n' },
    { run: 'set -e; false', options: { env: { A: '1' } }, code: 1 },
    { run: 'echo $A', out: '0\n' },
  ],
  'and a syntax error in the command': [
    { run: 'if', options: { env: { A: '1' }, cwd: '/usr' }, code: 2, err: /syntax error/ },
    { run: 'pwd; echo ${A-unset}', out: '<dir>\nunset\n' },
  ],
  'of PATH, HOME, IFS, LC_ALL and PWD': [
    {
      run: 'echo $HOME ~; ls',
      options: { env: { HOME: '/x', PATH: '/no' } },
      out: '/x /x\n',
      code: 127,
      err: 'bash: line 1: ls: command not found\n',
    },
    { run: 'x=a:b; echo $x', options: { env: { IFS: ':' } }, out: 'a b\n' },
    { run: 'x=a:b; echo $x; ls; printf %s "$IFS" | od -An -c', out: 'a:b\n      \\t  \\n\n' },
  ],
  'of a readonly variable': [
    { run: 'readonly A=1' },
    { run: 'touch ran', options: { env: { A: '2' } }, rejects: 'INVALID_ENV_NAME' },
    { run: 'echo $A; ls', out: '1\n' },
  ],
  'does not touch $?': [
    { run: '(exit 5)', code: 5 },
    { run: 'echo $?', options: { env: { A: '1' }, cwd: '/usr' }, out: '5\n' },
    { run: '(exit 6)', options: { env: { A: '1' }, cwd: '/usr' }, code: 6 },
    { run: 'echo $?', out: '6\n' },
  ],
  'under errexit and nounset': [
    { run: 'set -eu' },
    { run: 'echo $A', options: { env: { A: '1' }, cwd: '/usr' }, out: '1\n' },
    { run: 'pwd; echo ${A-unset}', out: '<dir>\nunset\n' },
  ],
  'under functions called export, unset, declare and cd': [
    {
      run: 'export() { echo mine; }; unset() { echo mine; }; declare() { echo mine; }; cd() { echo mine; }',
    },
    { run: 'echo $A; pwd', options: { env: { A: '1', HOME: undefined }, cwd: '/usr' }, out: '1\n/usr\n' },
    { run: 'echo ${A-unset} $HOME; pwd', out: 'unset /\n<dir>\n' },
  ],
})
