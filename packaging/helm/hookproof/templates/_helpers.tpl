{{/* Labels of everything here. */}}
{{- define "hookproof.labels" -}}
app.kubernetes.io/name: hookproof
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What finds the sender's pod. */}}
{{- define "hookproof.selector" -}}
app.kubernetes.io/name: hookproof
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: sender
{{- end }}

{{- define "hookproof.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A pod that may do nothing but its work. */}}
{{- define "hookproof.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "hookproof.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* One run of one scenario: what a job or a cron job starts. */}}
{{- define "hookproof.harnessPod" -}}
metadata:
  labels:
    {{- include "hookproof.labels" .context | nindent 4 }}
    app.kubernetes.io/component: harness
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext:
    {{- include "hookproof.podSecurity" .context | nindent 4 }}
  containers:
    - name: harness
      image: {{ include "hookproof.image" .context | quote }}
      imagePullPolicy: {{ .context.Values.image.pullPolicy }}
      args: [run, {{ printf "/scenarios/%s.toml" .name | quote }}, --out, /runs, --json, "-"]
      env:
        - name: TMPDIR
          value: /runs
      securityContext:
        {{- include "hookproof.containerSecurity" .context | nindent 8 }}
      resources:
        {{- toYaml .context.Values.harness.resources | nindent 8 }}
      volumeMounts:
        - name: scenarios
          mountPath: /scenarios
          readOnly: true
        - name: runs
          mountPath: /runs
  volumes:
    - name: scenarios
      configMap:
        name: {{ .context.Release.Name }}-scenarios
    - name: runs
      emptyDir: {}
{{- end }}
