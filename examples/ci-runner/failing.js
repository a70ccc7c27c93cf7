/** A failing pipeline: a hanging step is killed, later steps are skipped, and clean-up always runs. */
export default {
  steps: [
    { name: 'hang', run: 'echo started; sleep 600 & wait', timeout: 500 },
    { name: 'deploy', run: 'echo must not run' },
    { name: 'report', run: 'echo "::error file=deploy.yaml,line=3::not deployed"', always: true },
  ],
}
