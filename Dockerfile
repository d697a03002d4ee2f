# syntax=docker/dockerfile:1
# docker build -t headgate .
# Another base has to bring Node 20.19 or newer and glibc, such as node:20-bookworm-slim.
ARG NODE_IMAGE=node:22-bookworm-slim

FROM ${NODE_IMAGE} AS packages
WORKDIR /build
COPY package.json package-lock.json ./
COPY dashboard/package.json dashboard/
# Scripts of packages are not run: those with native code bring it ready.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund --workspaces=false

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
COPY dashboard/package.json dashboard/
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build \
  && node scripts/licenses.mjs --texts > THIRD-PARTY-LICENSES

FROM ${NODE_IMAGE}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Headgate" \
  org.opencontainers.image.description="Hands a large, changing data set to a whole fleet, and stays up when all of it reconnects at once" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production
COPY --from=packages /build/node_modules /usr/lib/headgate/node_modules
COPY --from=build /build/dist /usr/lib/headgate/dist
COPY --from=build /build/package.json /build/LICENSE /build/THIRD-PARTY-LICENSES /usr/lib/headgate/
# The store is a folder of the working directory. A volume that is mounted there empty takes over its owner.
RUN ln -s /usr/lib/headgate/dist/cli/main.js /usr/local/bin/headgate \
  && install -d -o 1000 -g 1000 /var/lib/headgate
WORKDIR /var/lib/headgate
VOLUME /var/lib/headgate
# By number, so that Kubernetes can see that it is not root.
USER 1000:1000
# Flags, or decisions alone.
EXPOSE 8030 8080
# Alive, not ready: one that waits for its upstream must not be ended for it. Nothing is loaded but an HTTP client.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
  CMD ["node", "/usr/lib/headgate/dist/cli/health.js"]
ENTRYPOINT ["headgate"]
# The file is read where there is one; variables go before it.
CMD ["serve", "--config", "/etc/headgate/headgate.yaml", "--allow-missing-file", "--from-env"]
