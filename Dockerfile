# The CPU path for macOS, Windows and Linux, on x86-64 and arm64 (docs/templates.md#containers):
#
#   docker build -t grade .
#   docker run -it --rm -v "$PWD:/grade" grade watch ex_15
#
# For a GPU: docker build --build-arg TORCH_INDEX= -t grade-gpu .   (empty: PyPI's torch, which brings CUDA)
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# On a GPU, Triton builds launchers with gcc. An editor in a devcontainer needs git.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc git libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /grade
# torch first: a change of the course does not download it again.
COPY constraints.txt ./
RUN PIP_EXTRA_INDEX_URL=$TORCH_INDEX pip install --no-cache-dir -c constraints.txt torch
COPY . .
RUN pip install --no-cache-dir -c constraints.txt -e ".[batch]"
# File events do not cross the bind mounts of every Docker Desktop.
ENV WATCHFILES_FORCE_POLLING=true
ENTRYPOINT ["grade"]
CMD ["doctor"]
