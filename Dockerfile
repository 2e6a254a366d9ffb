# One static program and nothing else. Build it first:
#   cargo build --profile dist --locked -p hookproof --target x86_64-unknown-linux-musl
#   docker build --build-arg PROGRAM=target/x86_64-unknown-linux-musl/dist/hookproof -t hookproof .
#   docker run -v hookproof:/data -p 8080:8080 -e SENDER_TOKEN hookproof
FROM scratch
ARG PROGRAM=target/x86_64-unknown-linux-musl/dist/hookproof
COPY --chmod=755 ${PROGRAM} /hookproof
# Where the database is.
WORKDIR /data
VOLUME /data
EXPOSE 8080
# What is freed goes back to the system after 10 ms, not after a second.
ENV MIMALLOC_PURGE_DELAY=10
ENTRYPOINT ["/hookproof"]
CMD ["sender", "serve", "--db", "/data/sender.db", "--listen", "0.0.0.0:8080", "--token-env", "SENDER_TOKEN"]
