# A container that is one sandbox: `nacre serve` and what commands need.
#
#   npm run build:packages -- linux-x64-gnu
#   docker build -t nacre .
#   docker run --rm -p 127.0.0.1:3000:3000 -v "$PWD/token:/run/secrets/nacre-token:ro" nacre
#
# It is built from the npm packages, so nothing is compiled here. For two architectures, build both and let
# buildx choose:
#
#   npm run build:packages -- linux-x64-gnu linux-arm64-gnu
#   docker buildx build --platform linux/amd64,linux/arm64 .
#
# docs/deploy.md explains the choices here, and how to run many sandboxes.

# The same Debian release as below: npm picks the platform package for the machine that it runs on.
FROM node:22-bookworm-slim AS install
ARG TARGETARCH=amd64
COPY target/packages/*.tgz /packages/
# To use another registry: --build-arg NPM_CONFIG_REGISTRY=https://...
ARG NPM_CONFIG_REGISTRY=https://registry.npmjs.org/
# Behind a proxy with its own certificates: the path of a mounted file that contains them.
ARG NODE_EXTRA_CA_CERTS
# The packages as any user installs them. Not with --global: then npm would give a package that is added later a
# nacre of its own.
RUN case "$TARGETARCH" in amd64) cpu=x64 ;; *) cpu="$TARGETARCH" ;; esac \
  && npm install --prefix /opt/nacre --ignore-scripts --no-audit --no-fund \
    /packages/nacre-[0-9]*.tgz "/packages/nacre-linux-$cpu-gnu-"[0-9]*.tgz \
    /packages/nacre-server-[0-9]*.tgz /packages/nacre-sandboxd-[0-9]*.tgz

FROM node:22-bookworm-slim
# Install what your commands need here. The image has bash; nacre needs nothing else.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates curl git procps \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# Numbers, not names: Kubernetes checks `runAsNonRoot` by number. This user owns none of nacre's files, so no
# command can change the program that runs it.
RUN groupadd --gid 10001 sandbox \
  && useradd --uid 10001 --gid 10001 --create-home --shell /bin/bash sandbox \
  && install -d -o 10001 -g 10001 /workspace
COPY --from=install /opt/nacre /opt/nacre
ENV PATH=/opt/nacre/node_modules/.bin:$PATH
USER 10001:10001
WORKDIR /workspace
# sandboxd: gRPC and REST, only with --sandboxd.
EXPOSE 8080 9090
EXPOSE 3000
# /healthz needs no token.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:3000/healthz"]
# No tini and no shell around it. Orphans become children of nacre's supervisors, which reap them. The server
# handles SIGTERM, which PID 1 would otherwise ignore, and ends everything that it started.
CMD ["nacre", "serve", "--host", "0.0.0.0", "--port", "3000", "--token-file", "/run/secrets/nacre-token"]
