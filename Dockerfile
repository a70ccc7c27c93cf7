# A container that is one sandbox: `nacre serve` and what commands need.
#
#   docker build -t nacre .
#   docker run --rm -p 127.0.0.1:3000:3000 -v "$PWD/token:/run/secrets/nacre-token:ro" nacre
#
# docs/deploy.md says why it is so, and how to run many of them.

# The version of Rust is at least `rust-version` in Cargo.toml.
FROM rust:1.88-slim-bookworm AS rust

# The same Debian release as below: the addon is linked to its C library.
FROM node:22-bookworm AS build
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV PATH=/usr/local/cargo/bin:$PATH CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup
WORKDIR /src
# The tools first: they change less often than the sources, and this layer is kept.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm pack --ignore-scripts --pack-destination /tmp
# The package as any user installs it, without the tools that built it.
RUN npm install --global --prefix /opt/nacre --omit=dev --ignore-scripts /tmp/nacre-*.tgz

FROM node:22-bookworm-slim
# Put here what your commands need. bash is in the image; nacre needs nothing else.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates curl git procps \
  && rm -rf /var/lib/apt/lists/*
# Numbers, not names: Kubernetes checks `runAsNonRoot` by the number. Nothing of nacre belongs to this user, so no
# command can change the program that runs it.
RUN groupadd --gid 10001 sandbox \
  && useradd --uid 10001 --gid 10001 --create-home --shell /bin/bash sandbox \
  && install -d -o 10001 -g 10001 /workspace
COPY --from=build /opt/nacre /opt/nacre
ENV PATH=/opt/nacre/bin:$PATH
USER 10001:10001
WORKDIR /workspace
EXPOSE 3000
# /healthz needs no token.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:3000/healthz"]
# No tini, no shell around it. What loses its parent becomes a child of nacre's supervisors, which reap it; the server
# handles SIGTERM, which PID 1 would otherwise ignore, and then ends everything that it has started.
CMD ["nacre", "serve", "--host", "0.0.0.0", "--port", "3000", "--token-file", "/run/secrets/nacre-token"]
