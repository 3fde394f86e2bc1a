# Sukkal in a small image. The first stage compiles; the second has the binary and nothing else of it.
FROM rust:1-slim-bookworm AS build
WORKDIR /sukkal
# The dependencies have a layer of their own, so they are compiled anew only when the manifest changes.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && touch src/lib.rs && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin sukkal
COPY config config
COPY scripts scripts
COPY src src
# cargo compares times, and copied files may be older than what was built from the empty ones.
RUN touch src/lib.rs src/main.rs && cargo build --release --locked --bin sukkal

FROM debian:bookworm-slim
# For Redis over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
RUN install -d -o 999 -g 999 -m 700 /var/lib/sukkal
COPY --from=build /sukkal/target/release/sukkal /usr/local/bin/sukkal
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 999:999
# Without a Redis, messages are kept in a file here.
ENV SUKKAL_BIND=0.0.0.0:8888 SUKKAL_STORE=embedded:/var/lib/sukkal
VOLUME /var/lib/sukkal
EXPOSE 8888
HEALTHCHECK --interval=5s --timeout=5s --retries=3 CMD ["sukkal", "ready"]
ENTRYPOINT ["sukkal"]
