# docker build -t mooring:0.1.0 .
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY mooring mooring
COPY examples examples
COPY deploy deploy
RUN pip install --no-cache-dir --no-warn-script-location --prefix /install '.[fast]'

FROM python:3.13-slim
LABEL org.opencontainers.image.title="Mooring" \
      org.opencontainers.image.description="A complete Kubernetes scheduler whose plugins are written in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
# Beside Python's own packages, so that an image built on this one adds plugins with `pip install`.
COPY --from=build /install /usr/local
# The root file system is read-only where it runs; plugins from a ConfigMap cannot be compiled in place.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 10259
# By number: Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["mooring"]
