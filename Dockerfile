# One static program and nothing else. Build it first:
#   cargo build --profile dist --locked -p hookproof --target x86_64-unknown-linux-musl
#   docker build --build-arg PROGRAM=target/x86_64-unknown-linux-musl/dist/hookproof -t hookproof .
#   docker run -v hookproof:/data -p 8080:8080 -e SENDER_TOKEN hookproof
FROM busybox:1.37 AS data
RUN mkdir /data

FROM scratch
ARG PROGRAM=target/x86_64-unknown-linux-musl/dist/hookproof
COPY --chmod=755 ${PROGRAM} /hookproof
# Nobody's number on the machine outside; a volume that is new gets the folder's owner. Without a shell there is no mkdir, and
# WORKDIR makes a folder of root's: an empty one is copied.
COPY --from=data --chown=65532:65532 --chmod=700 /data /data
USER 65532:65532
# Where the database is.
WORKDIR /data
VOLUME /data
EXPOSE 8080
# What is freed goes back to the system after 10 ms, not after a second.
ENV MIMALLOC_PURGE_DELAY=10
ENTRYPOINT ["/hookproof"]
CMD ["sender", "serve", "--db", "/data/sender.db", "--listen", "0.0.0.0:8080", "--token-env", "SENDER_TOKEN"]
