# Sukkal in a small image: built in one stage, and only the binary in the other.
FROM rust:1-slim-bookworm AS build
WORKDIR /sukkal
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY scripts scripts
COPY config config
# The manifest names them; nothing of them is built.
RUN mkdir -p benches tests && touch benches/layout.rs benches/cost.rs tests/main.rs \
    && cargo build --release --locked --bin sukkal

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --no-create-home sukkal
COPY --from=build /sukkal/target/release/sukkal /usr/local/bin/sukkal
USER sukkal
ENV SUKKAL_BIND=0.0.0.0:8888
EXPOSE 8888
ENTRYPOINT ["sukkal"]
