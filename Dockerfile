# Sukkal in a small image: built in one stage, and only the binary in the other.
FROM rust:1-slim-bookworm AS build
WORKDIR /sukkal
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY scripts scripts
COPY config config
# The manifest names them; nothing of them is built.
RUN mkdir -p benches/blocking benches/fairness benches/versus benches/waiting tests \
    && touch benches/blocking/main.rs benches/claims.rs benches/cost.rs benches/idle.rs benches/json.rs benches/layout.rs benches/steady.rs benches/fairness/main.rs benches/versus/main.rs benches/waiting/main.rs tests/main.rs \
    && cargo build --release --locked --bin sukkal

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --no-create-home sukkal && install -d -o sukkal -m 700 /var/lib/sukkal
COPY --from=build /sukkal/target/release/sukkal /usr/local/bin/sukkal
USER sukkal
# Without a Redis: messages are kept in a file here.
ENV SUKKAL_BIND=0.0.0.0:8888 SUKKAL_STORE=embedded:/var/lib/sukkal
VOLUME /var/lib/sukkal
EXPOSE 8888
ENTRYPOINT ["sukkal"]
