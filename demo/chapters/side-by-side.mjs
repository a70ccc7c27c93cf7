/** Two sessions at the same time. Neither could end if they ran one after the other: each waits for the other. */

export async function sideBySide(story, sandbox, directory) {
  story.title('Sessions run in parallel and share nothing')
  const [left, right] = await Promise.all([
    sandbox.createSession({ id: 'left' }),
    sandbox.createSession({ id: 'right' }),
  ])
  await story.run(left, 'name=left; cd /; mkfifo "$OLDPWD"/{ping,pong}')
  await story.run(right, 'name=right')

  const options = { timeout: 5000, env: { D: directory } }
  const [sent, answered] = await Promise.all([
    story.run(left, 'echo "from $name" > $D/ping; cat $D/pong', options),
    story.run(right, 'cat $D/ping; echo "from $name" > $D/pong', options),
  ])
  story.check(
    'they talk to each other',
    sent.stdout + answered.stdout === 'from right\nfrom left\n',
    sent.stdout,
  )
  story.check('each has its own directory', sent.cwd === '/' && answered.cwd === directory, [
    sent.cwd,
    answered.cwd,
  ])

  await sandbox.deleteSession('left')
  await sandbox.deleteSession('right')
}
