/** A passing pipeline: an ignored failure, a service, and state that steps share. */
export default {
  services: {
    api: {
      run: [
        'node',
        '-e',
        `require("http").createServer((_, answer) => answer.end("pong"))
          .listen(0, "127.0.0.1", function () { console.log("listening on", this.address().port) })`,
      ],
      ready: /listening on (\d+)/,
    },
  },
  steps: [
    { name: 'set up', run: 'cd "$(mktemp -d)"; export VERSION=1.2.3' },
    {
      name: 'lint',
      run: 'echo "::warning file=app.js,line=7::unused variable"; exit 1',
      continueOnError: true,
    },
    {
      name: 'build',
      run: 'echo "building $VERSION with $MODE"; echo app > app.txt',
      env: { MODE: 'release' },
    },
    {
      name: 'test',
      run: `node -e 'fetch("http://127.0.0.1:" + process.env.API_PORT).then((r) => r.text()).then(console.log)' && cat app.txt`,
    },
    { name: 'clean up', run: 'rm -r "$PWD"; cd /', always: true },
  ],
}
