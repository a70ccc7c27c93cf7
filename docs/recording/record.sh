#!/bin/bash
# Records docs/public/try.cast, which the home page of the site plays. Run it in the root, after a build.
set -eu
rm -f docs/public/try.cast
node dist/cli/main.js record --output docs/public/try.cast 'node docs/recording/try.mjs'
chmod 644 docs/public/try.cast
