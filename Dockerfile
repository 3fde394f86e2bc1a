# Builds a small image of Sukkal. The first stage compiles, and the second contains only the binary.
FROM rust:1-bookworm AS build
WORKDIR /sukkal
# The dependencies are compiled in a separate layer, and again only when the manifest changes.
COPY Cargo.toml Cargo.lock ./
COPY .cargo/config.toml .cargo/config.toml
# The package of the tests belongs to the workspace, but is not compiled.
COPY tests/Cargo.toml tests/Cargo.toml
COPY crates/base/Cargo.toml crates/base/Cargo.toml
COPY crates/cli/Cargo.toml crates/cli/Cargo.toml
COPY crates/domain/Cargo.toml crates/domain/Cargo.toml
COPY crates/storage/Cargo.toml crates/storage/Cargo.toml
RUN mkdir src crates/base/src crates/cli/src crates/domain/src crates/storage/src \
    && touch src/lib.rs crates/base/src/lib.rs crates/cli/src/lib.rs crates/domain/src/lib.rs crates/storage/src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin sukkal
COPY crates crates
COPY config config
COPY scripts scripts
COPY src src
COPY openapi.yaml ./
# Cargo compares modification times, and the copied files may be older than the build of the empty ones.
RUN touch src/*.rs crates/*/src/lib.rs && cargo build --release --locked --bin sukkal

FROM debian:bookworm-slim
# The root certificates for Redis over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
RUN install -d -o 999 -g 999 -m 700 /var/lib/sukkal
COPY --from=build /sukkal/target/release/sukkal /usr/local/bin/sukkal
# A numeric user lets Kubernetes verify that it is not root (runAsNonRoot).
USER 999:999
# By default, messages are stored in a file in this folder. Set SUKKAL_STORE to use Redis. Sukkal does not
# start before SUKKAL_AUTH__STRATEGIES says who may use it: see docs/security.md. It is not ready for 5 seconds
# before it stops, so that load balancers notice.
ENV SUKKAL_BIND=:8888 SUKKAL_STORE=embedded:/var/lib/sukkal SUKKAL_DRAIN_DELAY=5
VOLUME /var/lib/sukkal
EXPOSE 8888
HEALTHCHECK --interval=5s --timeout=5s --retries=3 CMD ["sukkal", "ready"]
ENTRYPOINT ["sukkal"]
