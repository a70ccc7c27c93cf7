#!/bin/bash
# Records docs/public/first-steps.cast, which the home page of the site plays. Run it in the root, after a build.
set -eu
rm -f docs/public/first-steps.cast
node dist/cli/main.js record --output docs/public/first-steps.cast 'node docs/recording/first-steps.mjs'
chmod 644 docs/public/first-steps.cast
