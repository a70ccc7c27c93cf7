# A container that is one sandbox: `nacre serve` and what commands need.
#
#   npm run build:packages -- linux-x64-gnu
#   docker build -t nacre .
#   docker run --rm -p 127.0.0.1:3000:3000 -v "$PWD/token:/run/secrets/nacre-token:ro" nacre
#
# It is made of the packages, so nothing is compiled here. For two processors, build both and let buildx choose:
#
#   npm run build:packages -- linux-x64-gnu linux-arm64-gnu
#   docker buildx build --platform linux/amd64,linux/arm64 .
#
# docs/deploy.md says why it is so, and how to run many of them.

# The same Debian release as below: npm chooses what to install by the machine that it runs on.
FROM node:22-bookworm-slim AS install
ARG TARGETARCH=amd64
COPY target/packages/*.tgz /packages/
# Another registry: --build-arg NPM_CONFIG_REGISTRY=https://...
ARG NPM_CONFIG_REGISTRY=https://registry.npmjs.org/
# Behind a proxy with certificates of its own: the path of a mounted file that has them.
ARG NODE_EXTRA_CA_CERTS
# The package as any user installs it, with the packages that `nacre serve --sandboxd` needs.
RUN case "$TARGETARCH" in amd64) cpu=x64 ;; *) cpu="$TARGETARCH" ;; esac \
  && npm install --global --prefix /opt/nacre --ignore-scripts --no-audit --no-fund \
    /packages/nacre-[0-9]*.tgz "/packages/nacre-linux-$cpu-gnu-"[0-9]*.tgz \
    @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1 @grpc/reflection@1.0.4 grpc-health-check@2.1.0

FROM node:22-bookworm-slim
# Put here what your commands need. bash is in the image; nacre needs nothing else.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates curl git procps \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# Numbers, not names: Kubernetes checks `runAsNonRoot` by the number. Nothing of nacre belongs to this user, so no
# command can change the program that runs it.
RUN groupadd --gid 10001 sandbox \
  && useradd --uid 10001 --gid 10001 --create-home --shell /bin/bash sandbox \
  && install -d -o 10001 -g 10001 /workspace
COPY --from=install /opt/nacre /opt/nacre
ENV PATH=/opt/nacre/bin:$PATH
USER 10001:10001
WORKDIR /workspace
# sandboxd: gRPC and REST, with --sandboxd alone.
EXPOSE 8080 9090
EXPOSE 3000
# /healthz needs no token.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:3000/healthz"]
# No tini, no shell around it. What loses its parent becomes a child of nacre's supervisors, which reap it; the server
# handles SIGTERM, which PID 1 would otherwise ignore, and then ends everything that it has started.
CMD ["nacre", "serve", "--host", "0.0.0.0", "--port", "3000", "--token-file", "/run/secrets/nacre-token"]
